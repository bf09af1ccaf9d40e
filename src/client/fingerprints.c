/*
 * fingerprints.c
 *	  Open addressing, at most two thirds full; the hash is its own place.
 */
#include "client/fingerprints.h"

#include <stdlib.h>

/* Inlined, so that the extension has no symbols of it that another one's could meet. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#define FIRST_SIZE 1024

void
zaris_fingerprints_init(ZarisFingerprints *set, uint64_t seed)
{
	set->seed = seed;
	set->n = 0;
	set->size = 0;
	set->places = NULL;
}

void
zaris_fingerprints_free(ZarisFingerprints *set)
{
	free(set->places);
	set->places = NULL;
	set->n = set->size = 0;
}

static bool
is_empty(const ZarisFingerprint *place)
{
	return place->high == 0 && place->low == 0;
}

/* The place of a fingerprint, or the empty one where it belongs. There is always an empty one. */
static ZarisFingerprint *
find_place(ZarisFingerprint *places, size_t size, ZarisFingerprint wanted)
{
	size_t at = (size_t) wanted.low & (size - 1);

	while (!is_empty(&places[at]) && (places[at].high != wanted.high || places[at].low != wanted.low))
		at = (at + 1) & (size - 1);
	return &places[at];
}

static bool
grow(ZarisFingerprints *set)
{
	size_t			  size = set->size == 0 ? FIRST_SIZE : set->size * 2;
	ZarisFingerprint *places;

	if (size < set->size)
		return false;
	places = calloc(size, sizeof(*places));
	if (places == NULL)
		return false;
	for (size_t i = 0; i < set->size; i++)
	{
		if (!is_empty(&set->places[i]))
			*find_place(places, size, set->places[i]) = set->places[i];
	}
	free(set->places);
	set->places = places;
	set->size = size;
	return true;
}

ZarisSeen
zaris_fingerprints_add(ZarisFingerprints *set, const char *key, size_t len)
{
	XXH128_hash_t	  hash = XXH3_128bits_withSeed(len > 0 ? key : "", len, set->seed);
	ZarisFingerprint  wanted = {hash.high64, hash.low64};
	ZarisFingerprint *place;

	if (is_empty(&wanted))
		wanted.high = 1;
	if (set->n + set->n / 2 >= set->size && !grow(set))
		return ZARIS_SEEN_NO_MEMORY;
	place = find_place(set->places, set->size, wanted);
	if (!is_empty(place))
		return ZARIS_SEEN_BEFORE;
	*place = wanted;
	set->n++;
	return ZARIS_SEEN_NEW;
}
