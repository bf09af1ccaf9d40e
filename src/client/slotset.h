/*
 * slotset.h
 *	  A set of slots, as bits.
 */
#ifndef ZARIS_CLIENT_SLOTSET_H
#define ZARIS_CLIENT_SLOTSET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "map.h"

typedef struct ZarisSlotSet
{
	int		n; /* members */
	uint8_t bits[ZARIS_MAX_SLOTS / 8];
} ZarisSlotSet;

/* Bits as a driver fills them (ZarisNodeState.owned). */
static inline bool
zaris_slot_bit(const uint8_t *bits, int slot)
{
	return (bits[slot >> 3] >> (slot & 7)) & 1;
}

static inline bool
zaris_slotset_has(const ZarisSlotSet *set, int slot)
{
	ZARIS_ASSERT(slot >= 0 && slot < ZARIS_MAX_SLOTS);
	return zaris_slot_bit(set->bits, slot);
}

static inline void
zaris_slotset_clear(ZarisSlotSet *set)
{
	memset(set, 0, sizeof(*set));
}

static inline void
zaris_slotset_add(ZarisSlotSet *set, int slot)
{
	if (!zaris_slotset_has(set, slot))
	{
		set->bits[slot >> 3] |= (uint8_t) (1 << (slot & 7));
		set->n++;
	}
}

static inline void
zaris_slotset_remove(ZarisSlotSet *set, int slot)
{
	if (zaris_slotset_has(set, slot))
	{
		set->bits[slot >> 3] &= (uint8_t) ~(1 << (slot & 7));
		set->n--;
	}
}

#endif /* ZARIS_CLIENT_SLOTSET_H */
