/*
 * version.c
 *	  Content versions (version.h) by libcrypto's SHA-1.
 *
 * The digest is looked up once a process: EVP_sha1() by name costs more than hashing a small value does.  SHA-1
 * is what a Redis script can compute; it is a fingerprint here, not a signature.
 */
#include "client/version.h"

#include <openssl/evp.h>
#include <openssl/opensslv.h>
#include <stdbool.h>
#include <stdio.h>

#define SHA1_LENGTH 20

static EVP_MD_CTX	*context;
static const EVP_MD *digest;

static bool
digest_is_ready(void)
{
	if (digest != NULL)
		return true;
	if (context == NULL)
		context = EVP_MD_CTX_new();
	if (context == NULL)
		return false;
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
	digest = EVP_MD_fetch(NULL, "SHA1", NULL);
#else
	digest = EVP_sha1();
#endif
	return digest != NULL;
}

static uint32_t
big_endian_32(const unsigned char *bytes)
{
	return ((uint32_t) bytes[0] << 24) | ((uint32_t) bytes[1] << 16) | ((uint32_t) bytes[2] << 8) | bytes[3];
}

/* Two's complement is what int64_t is, but the cast alone would be the implementation's choice. */
static int64_t
join_halves(uint32_t high, uint32_t low)
{
	uint64_t bits = ((uint64_t) high << 32) | low;

	return bits <= INT64_MAX ? (int64_t) bits : -(int64_t) (UINT64_MAX - bits) - 1;
}

static bool
add_bytes(const char *data, size_t len)
{
	return len == 0 || EVP_DigestUpdate(context, data, len) == 1;
}

static bool
finish_digest(uint32_t *high, uint32_t *low)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned int  len = 0;

	if (EVP_DigestFinal_ex(context, sum, &len) != 1 || len != SHA1_LENGTH)
		return false;
	*high = big_endian_32(sum);
	*low = big_endian_32(sum + 4);
	return true;
}

bool
zaris_version_string(const char *value, size_t len, int64_t *version)
{
	uint32_t high;
	uint32_t low;

	if (!digest_is_ready() || EVP_DigestInit_ex(context, digest, NULL) != 1)
		return false;
	if (!add_bytes(value, len) || !finish_digest(&high, &low))
		return false;
	*version = join_halves(high, low);
	return true;
}

bool
zaris_version_hash(const ZarisField *fields, int n_fields, int64_t *version)
{
	uint32_t high_sum = 0;
	uint32_t low_sum = 0;

	if (!digest_is_ready())
		return false;
	for (int i = 0; i < n_fields; i++)
	{
		char	 prefix[24];
		int		 prefix_len;
		uint32_t high;
		uint32_t low;

		if (fields[i].value.data == NULL)
			continue;

		/* The length before the name keeps ("ab", "c") and ("a", "bc") apart. */
		prefix_len = snprintf(prefix, sizeof(prefix), "%zu:", fields[i].name.len);
		if (EVP_DigestInit_ex(context, digest, NULL) != 1 ||
			!add_bytes(prefix, (size_t) prefix_len) ||
			!add_bytes(fields[i].name.data, fields[i].name.len) ||
			!add_bytes(fields[i].value.data, fields[i].value.len) ||
			!finish_digest(&high, &low))
			return false;
		high_sum += high;
		low_sum += low;
	}
	*version = join_halves(high_sum, low_sum);
	return true;
}
