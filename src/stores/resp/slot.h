/*
 * slot.h
 *	  The hash slot of a key on a RESP cluster.  Pure.
 *
 * slot = CRC16(tag, or the whole key) mod 16384.  The tag is what stands between the first '{' and the first '}' behind
 * it, if that is not empty; it lets keys be placed in one slot on purpose.
 */
#ifndef ZARIS_RESP_SLOT_H
#define ZARIS_RESP_SLOT_H

#include <stddef.h>

extern int zaris_resp_slot(const char *key, size_t len);

#endif /* ZARIS_RESP_SLOT_H */
