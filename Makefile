# zaris_fdw: see README.md.
#
#	make, make install			the extension; PG_CONFIG=/path/to/pg_config names the PostgreSQL
#	make unit					tests of the core: a C compiler only, no PostgreSQL, no server
#	make installcheck			TAP tests (t/) against the installed extension; not as root.  PROVE_TESTS='t/x.pl', PROVE_FLAGS=-v
#	script/test					both, from a clean checkout, as root or not, changing nothing in the system
#
# ZARIS_CFLAGS and ZARIS_LDFLAGS are appended: ZARIS_CFLAGS='-Werror -DUSE_ASSERT_CHECKING' (script/lint builds so).

MODULE_big = zaris_fdw
EXTENSION = zaris_fdw
DATA = zaris_fdw--0.1.sql
PGFILEDESC = "zaris_fdw - foreign data wrapper for partitioned key/value stores"

CORE_OBJS = $(sort $(patsubst %.c,%.o,$(wildcard src/client/*.c src/stores/*.c src/stores/resp/*.c \
	src/stores/lmdb/*.c)))
OBJS = zaris_fdw.o $(CORE_OBJS) \
	$(sort $(patsubst %.c,%.o,$(wildcard src/backend/*.c src/fdw/*.c)))
EXTRA_CLEAN = $(OBJS:.o=.d) tmp_check log output_iso

TAP_TESTS = 1

# Hidden symbols: PostgreSQL loads libraries RTLD_GLOBAL, and two extensions that both contain a client for the same
# protocol would call each other's functions.
PG_CONFIG ?= pg_config
PG_CPPFLAGS = -Isrc
PG_CFLAGS = -std=gnu11 -fvisibility=hidden -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -MMD -MP $(ZARIS_CFLAGS)
SHLIB_LINK = -luv -lcrypto -lxxhash -llmdb -Wl,--exclude-libs,ALL -Wl,-Bsymbolic $(ZARIS_LDFLAGS)

# Bitcode for JIT needs the very clang that PostgreSQL was built with, and this code gains nothing by it.
override with_llvm := $(or $(with_llvm),no)

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# The tests' own modules, whatever PROVE_FLAGS was given.
override PROVE_FLAGS += -I t/lib

.PHONY: unit
unit:
	$(MAKE) -C test/unit check

clean: clean-unit
.PHONY: clean-unit
clean-unit:
	rm -rf test/unit/build bench/build

-include $(OBJS:.o=.d)
