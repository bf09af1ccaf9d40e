/*
 * fingerprints.h
 *	  Which keys a scan has given out: a set of 128-bit hashes.
 *
 * 16 bytes a key instead of the key; with a random seed nobody can make two keys meet on purpose, and by chance two
 * of a billion keys do so once in 10^20 scans.
 */
#ifndef ZARIS_CLIENT_FINGERPRINTS_H
#define ZARIS_CLIENT_FINGERPRINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ZarisFingerprint
{
	uint64_t high;
	uint64_t low; /* both 0 = an empty place */
} ZarisFingerprint;

typedef struct ZarisFingerprints
{
	uint64_t		  seed;
	size_t			  n;
	size_t			  size; /* a power of two, or 0 */
	ZarisFingerprint *places;
} ZarisFingerprints;

typedef enum ZarisSeen
{
	ZARIS_SEEN_NEW,
	ZARIS_SEEN_BEFORE,
	ZARIS_SEEN_NO_MEMORY
} ZarisSeen;

extern void		 zaris_fingerprints_init(ZarisFingerprints *set, uint64_t seed);
extern ZarisSeen zaris_fingerprints_add(ZarisFingerprints *set, const char *key, size_t len);
extern void		 zaris_fingerprints_free(ZarisFingerprints *set);

#endif /* ZARIS_CLIENT_FINGERPRINTS_H */
