/*
 * nodes.c
 *	  The text of CLUSTER NODES: see nodes.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memrchr, memmem */
#endif

#include <string.h>

#include "stores/resp/nodes.h"
#include "stores/resp/reader.h"

#define WORDS_BEFORE_SLOTS 8

typedef struct Text
{
	const char *at;
	size_t		len;
} Text;

/* Cut the part before the next delimiter off the front of *rest. False: *rest is used up. */
static bool
next_part(Text *rest, char delimiter, Text *part)
{
	const char *end;

	if (rest->len == 0)
		return false;
	part->at = rest->at;
	end = memchr(rest->at, delimiter, rest->len);
	part->len = end != NULL ? (size_t) (end - rest->at) : rest->len;
	rest->at += part->len;
	rest->len -= part->len;
	if (rest->len > 0)
	{
		rest->at++;
		rest->len--;
	}
	return true;
}

static bool
text_equals(Text text, const char *wanted)
{
	return text.len == strlen(wanted) && memcmp(text.at, wanted, text.len) == 0;
}

static bool
has_flag(Text flags, const char *wanted)
{
	Text flag;

	while (next_part(&flags, ',', &flag))
		if (text_equals(flag, wanted))
			return true;
	return false;
}

static bool
copy_id(char id[48], Text text)
{
	if (text.len == 0 || text.len >= 48)
		return false;
	memcpy(id, text.at, text.len);
	id[text.len] = '\0';
	return true;
}

/*
 * "ip:port@bus,hostname...": the ip, which may be IPv6 without brackets; a node that does not know its own leaves it
 * out.  False: the node has no address (yet, or any more).
 */
static bool
parse_address(Text text, bool myself, const ZarisAddress *origin, ZarisAddress *address)
{
	const char *end = memchr(text.at, '@', text.len);
	const char *colon;
	uint64_t	port;

	if (end == NULL)
		end = memchr(text.at, ',', text.len);
	if (end == NULL)
		end = text.at + text.len;
	colon = memrchr(text.at, ':', end - text.at);
	if (colon == NULL || !zaris_digits(colon + 1, end - colon - 1, 65535, &port) || port == 0)
		return false;
	if (colon > text.at)
		return zaris_address_set(address, text.at, colon - text.at, (int64_t) port);
	if (!myself)
		return false;
	if (origin->port == 0)
		return zaris_address_set(address, "127.0.0.1", 9, (int64_t) port);
	return zaris_address_set(address, origin->host, strlen(origin->host), (int64_t) port);
}

/* "[93->-id]" or "[93-<-id]", without the brackets */
static bool
parse_open_slot(Text text, ZarisOpenSlot *open)
{
	const char *dash = memchr(text.at, '-', text.len);
	uint64_t	slot;
	size_t		rest;

	if (dash == NULL || !zaris_digits(text.at, dash - text.at, ZARIS_MAX_SLOTS - 1, &slot))
		return false;
	rest = text.at + text.len - dash;
	if (rest < 3 || (memcmp(dash, "->-", 3) != 0 && memcmp(dash, "-<-", 3) != 0))
		return false;
	open->slot = (uint16_t) slot;
	open->importing = dash[1] == '<';
	return copy_id(open->peer_id, (Text){dash + 3, rest - 3});
}

static bool
parse_range(Text text, ZarisNodeState *state)
{
	Text	 first_text;
	uint64_t first;
	uint64_t last;

	if (!next_part(&text, '-', &first_text) ||
		!zaris_digits(first_text.at, first_text.len, ZARIS_MAX_SLOTS - 1, &first))
		return false;
	last = first;
	if (text.len > 0 && !zaris_digits(text.at, text.len, ZARIS_MAX_SLOTS - 1, &last))
		return false;
	if (last < first)
		return false;
	for (uint64_t slot = first; slot <= last; slot++)
		state->owned[slot / 8] |= (uint8_t) (1 << slot % 8);
	return true;
}

static size_t
count_char(Text text, char wanted)
{
	size_t n = 0;

	for (size_t i = 0; i < text.len; i++)
		n += text.at[i] == wanted;
	return n;
}

/* The slots at the end of the node's own line. */
static ZarisStatus
parse_slots(Text text, ZarisNodeState *state, ZarisAllocate allocate, void *context)
{
	size_t n_open = count_char(text, '[');
	Text   word;

	if (n_open > 0)
	{
		state->open = allocate(context, n_open * sizeof(*state->open));
		if (state->open == NULL)
			return ZARIS_NO_MEMORY;
	}
	while (next_part(&text, ' ', &word))
	{
		bool ok = true;

		if (word.len == 0)
			continue;
		if (word.at[0] != '[')
			ok = parse_range(word, state);
		else if ((size_t) state->n_open < n_open && word.at[word.len - 1] == ']')
			ok = parse_open_slot((Text){word.at + 1, word.len - 2}, &state->open[state->n_open++]);
		else
			ok = false;
		if (!ok)
			return ZARIS_PROTOCOL_ERROR;
	}
	return ZARIS_OK;
}

static ZarisStatus
parse_line(Text line, const ZarisAddress *origin, ZarisNodeState *state, ZarisAllocate allocate, void *context)
{
	Text			  words[WORDS_BEFORE_SLOTS];
	struct ZarisPeer *peer = &state->peers[state->n_peers];
	bool			  myself;

	for (int i = 0; i < WORDS_BEFORE_SLOTS; i++)
		if (!next_part(&line, ' ', &words[i]) || words[i].len == 0)
			return ZARIS_PROTOCOL_ERROR;
	if (!copy_id(peer->id, words[0]))
		return ZARIS_PROTOCOL_ERROR;
	myself = has_flag(words[2], "myself");
	if (parse_address(words[1], myself, origin, &peer->address))
		state->n_peers++;
	if (!myself)
		return ZARIS_OK;

	if (state->node_id[0] != '\0' || !copy_id(state->node_id, words[0]) ||
		!zaris_digits(words[6].at, words[6].len, UINT64_MAX, &state->epoch))
		return ZARIS_PROTOCOL_ERROR;
	state->primary = has_flag(words[2], "master");
	return parse_slots(line, state, allocate, context);
}

ZarisStatus
zaris_nodes_parse(const char *text, size_t len, const ZarisAddress *origin,
				  ZarisAllocate allocate, void *context, ZarisNodeState **state)
{
	Text   rest = {text, len};
	size_t n_lines = count_char(rest, '\n') + 1;
	Text   line;

	*state = allocate(context, sizeof(**state));
	if (*state == NULL)
		return ZARIS_NO_MEMORY;
	memset(*state, 0, sizeof(**state));
	(*state)->peers = allocate(context, n_lines * sizeof(*(*state)->peers));
	if ((*state)->peers == NULL)
		return ZARIS_NO_MEMORY;
	while (next_part(&rest, '\n', &line))
	{
		ZarisStatus status;

		if (line.len > 0 && line.at[line.len - 1] == '\r')
			line.len--;
		if (line.len == 0)
			continue;
		status = parse_line(line, origin, *state, allocate, context);
		if (status != ZARIS_OK)
			return status;
	}
	return (*state)->node_id[0] != '\0' ? ZARIS_OK : ZARIS_PROTOCOL_ERROR;
}
