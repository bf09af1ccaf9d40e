# zaris_fdw: see README.md.  make, make install, make installcheck; make unit for the tests of the core.

MODULE_big = zaris_fdw
EXTENSION = zaris_fdw
DATA = zaris_fdw--0.1.sql
PGFILEDESC = "zaris_fdw - foreign data wrapper for partitioned key/value stores"

CORE_OBJS = $(sort $(patsubst %.c,%.o,$(wildcard src/client/*.c src/stores/*.c src/stores/resp/*.c)))
OBJS = zaris_fdw.o $(CORE_OBJS) \
	$(sort $(patsubst %.c,%.o,$(wildcard src/backend/*.c src/fdw/*.c)))

PG_CONFIG ?= pg_config
PG_CPPFLAGS = -Isrc
PG_CFLAGS = -std=gnu11 -fvisibility=hidden -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -MMD -MP $(ZARIS_CFLAGS)
SHLIB_LINK = -luv -lcrypto -lxxhash -Wl,--exclude-libs,ALL -Wl,-Bsymbolic $(ZARIS_LDFLAGS)

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

-include $(OBJS:.o=.d)
