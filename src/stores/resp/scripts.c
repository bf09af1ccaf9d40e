/*
 * scripts.c
 *	  The Lua scripts of the conditional writes: see scripts.h.
 *
 * Lua 5.1's numbers are doubles: sums of version halves are kept below 2^33, where they are exact.  unpack() can take
 * about 8000 values, so long lists go in pieces.
 */
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "stores/resp/scripts.h"

/* kind of the key; and the answer for a key that is missing or of another kind, when the condition asks for a record */
#define KIND \
	"local key, condition = KEYS[1], ARGV[1]\n" \
	"local kind = redis.call('TYPE', key).ok\n"

#define NO_RECORD \
	"condition == 'p' and 2 or 0"

#define STRING_MATCHES \
	"if kind ~= 'string' then return " NO_RECORD " end\n" \
	"if condition ~= 'p' and string.sub(redis.sha1hex(redis.call('GET', key)), 1, 16) ~= condition then return 0 end\n"

/* a hash's version: the sum over its fields, each half modulo 2^32 */
#define HASH_SUM \
	"local count, high, low = 0, 0, 0\n" \
	"local function add(name, value, sign)\n" \
	"  local digest = redis.sha1hex(#name .. ':' .. name .. value)\n" \
	"  high = (high + sign * tonumber(string.sub(digest, 1, 8), 16)) % 4294967296\n" \
	"  low = (low + sign * tonumber(string.sub(digest, 9, 16), 16)) % 4294967296\n" \
	"  count = count + sign\n" \
	"end\n" \
	"local function version() return string.format('%08x%08x', high, low) end\n"

static const char *const script_texts[ZARIS_SCRIPT_COUNT] = {
	[ZARIS_SCRIPT_PUT_STRING] =
		KIND
			STRING_MATCHES
	"if ARGV[2] == 'k' then\n"
	"  redis.call('SET', key, ARGV[3], 'KEEPTTL')\n"
	"elseif ARGV[2] == 'c' then\n"
	"  redis.call('SET', key, ARGV[3])\n"
	"else\n"
	"  redis.call('SET', key, ARGV[3], 'PXAT', ARGV[2])\n"
	"end\n"
	"return 1\n",

	[ZARIS_SCRIPT_PUT_HASH] =
		KIND
	"if condition == 'a' then\n"
	"  if kind == 'hash' then return 0 elseif kind ~= 'none' then return 3 end\n"
	"elseif kind ~= 'hash' then\n"
	"  return " NO_RECORD "\n"
	"end\n" HASH_SUM
	"local fields = {}\n"
	"if kind == 'hash' then\n"
	"  local all = redis.call('HGETALL', key)\n"
	"  for i = 1, #all, 2 do\n"
	"    fields[all[i]] = all[i + 1]\n"
	"    add(all[i], all[i + 1], 1)\n"
	"  end\n"
	"end\n"
	"if #condition == 16 and version() ~= condition then return 0 end\n"
	"local last = 3 + 2 * tonumber(ARGV[3])\n"
	"for i = 4, last, 2 do\n"
	"  local name, value = ARGV[i], ARGV[i + 1]\n"
	"  if fields[name] then add(name, fields[name], -1) end\n"
	"  fields[name] = value\n"
	"  add(name, value, 1)\n"
	"end\n"
	"for i = last + 1, #ARGV do\n"
	"  local name = ARGV[i]\n"
	"  if fields[name] then add(name, fields[name], -1) end\n"
	"  fields[name] = nil\n"
	"end\n"
	"if count == 0 then return 4 end\n"
	"for i = 4, last, 2000 do\n"
	"  redis.call('HSET', key, unpack(ARGV, i, math.min(i + 1999, last)))\n"
	"end\n"
	"for i = last + 1, #ARGV, 2000 do\n"
	"  redis.call('HDEL', key, unpack(ARGV, i, math.min(i + 1999, #ARGV)))\n"
	"end\n"
	"if ARGV[2] == 'c' then\n"
	"  redis.call('PERSIST', key)\n"
	"elseif ARGV[2] ~= 'k' then\n"
	"  redis.call('PEXPIREAT', key, ARGV[2])\n"
	"end\n"
	"return version()\n",

	[ZARIS_SCRIPT_DELETE_STRING] =
		KIND
			STRING_MATCHES
	"redis.call('DEL', key)\n"
	"return 1\n",

	[ZARIS_SCRIPT_DELETE_HASH] =
		KIND
	"if kind ~= 'hash' then return " NO_RECORD " end\n" HASH_SUM
	"if condition ~= 'p' then\n"
	"  local all = redis.call('HGETALL', key)\n"
	"  for i = 1, #all, 2 do add(all[i], all[i + 1], 1) end\n"
	"  if version() ~= condition then return 0 end\n"
	"end\n"
	"redis.call('DEL', key)\n"
	"return 1\n"};

const char *
zaris_script_text(ZarisScriptId id)
{
	return script_texts[id];
}

/* SHA-1 as the server computes it; without it (a libcrypto that refuses SHA-1) scripts are sent whole. */
void
zaris_scripts_prepare(ZarisScripts *scripts)
{
	scripts->has_digests = true;
	for (int id = 0; id < ZARIS_SCRIPT_COUNT; id++)
	{
		unsigned char digest[EVP_MAX_MD_SIZE];
		unsigned	  len = 0;

		if (EVP_Digest(script_texts[id], strlen(script_texts[id]), digest, &len, EVP_sha1(), NULL) != 1 ||
			len * 2 != ZARIS_SHA1_HEX)
		{
			scripts->has_digests = false;
			return;
		}
		for (unsigned i = 0; i < len; i++)
			snprintf(scripts->digest[id] + 2 * i, 3, "%02x", digest[i]);
	}
}
