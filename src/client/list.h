/*
 * list.h
 *	  A ring of links: add and remove without knowing where one stands.
 *
 * A link that is in no list points to itself, so removing it twice is harmless.
 */
#ifndef ZARIS_CLIENT_LIST_H
#define ZARIS_CLIENT_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ZarisLink
{
	struct ZarisLink *previous;
	struct ZarisLink *next;
} ZarisLink;

/* The structure that a link is a member of. */
#define ZARIS_OF_LINK(type, member, link) ((type *) (void *) ((char *) (link) -offsetof(type, member)))

/* Walk a list; the present link may be removed meanwhile, others may not. */
#define ZARIS_EACH_LINK(link, following, head) \
	for ((link) = (head)->next, (following) = (link)->next; (link) != (head); \
		 (link) = (following), (following) = (link)->next)

static inline void
zaris_link_init(ZarisLink *link)
{
	link->previous = link->next = link;
}

static inline bool
zaris_link_is_alone(const ZarisLink *link)
{
	return link->next == link;
}

static inline void
zaris_link_remove(ZarisLink *link)
{
	link->previous->next = link->next;
	link->next->previous = link->previous;
	zaris_link_init(link);
}

/* At the end of the list. */
static inline void
zaris_link_add(ZarisLink *head, ZarisLink *link)
{
	link->previous = head->previous;
	link->next = head;
	head->previous->next = link;
	head->previous = link;
}

#endif /* ZARIS_CLIENT_LIST_H */
