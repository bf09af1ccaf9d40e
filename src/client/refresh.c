/*
 * refresh.c
 *	  The single flight of a map refresh (DESIGN 7).
 *
 * One refresh asks one node after the other until a node has a map that can be taken: first those that are known
 * and not suspect, from a random one on; then the suspect ones; then the seeds, resolved afresh; then nodes that
 * once were known.  Each is asked once.  Whoever wants a map while one is under way rides it.
 *
 * The driver's callback only notes what came (inside.h); zaris_refresh_step() asks the next node.
 */
#include "client/inside.h"

#include <string.h>

/* How well a node qualifies to be asked; the lowest first. */
typedef enum CandidateClass
{
	CANDIDATE_KNOWN,
	CANDIDATE_SUSPECT,
	CANDIDATE_SEED,
	CANDIDATE_FORMER, /* no topology names it any more, or only a redirect did */
	CANDIDATE_NONE
} CandidateClass;

static CandidateClass
class_of(const ZarisClient *client, int id)
{
	if (client->refresh.asked_node[id])
		return CANDIDATE_NONE;
	if (!client->map.now.nodes[id].listed)
		return CANDIDATE_FORMER;
	return client->refresh.suspect[id] ? CANDIDATE_SUSPECT : CANDIDATE_KNOWN;
}

static uint64_t
random_below(ZarisClient *client, int bound)
{
	return client->host.random(client->host.context) % (uint64_t) bound;
}

/* A random node of a class that was not asked yet; -1 = none. */
static int
pick_node(ZarisClient *client, CandidateClass wanted)
{
	int n = client->map.now.n_nodes;
	int start;

	if (n == 0)
		return -1;
	start = (int) random_below(client, n);
	for (int i = 0; i < n; i++)
	{
		int id = (start + i) % n;

		if (class_of(client, id) == wanted)
			return id;
	}
	return -1;
}

/* A seed that is one of the nodes already asked would only say the same again. */
static bool
seed_was_asked(const ZarisClient *client, int seed)
{
	if (client->refresh.asked_seed[seed])
		return true;
	for (int id = 0; id < client->map.now.n_nodes; id++)
	{
		if (client->refresh.asked_node[id] &&
			zaris_address_equal(&client->map.now.nodes[id].address, &client->url.seeds[seed]))
			return true;
	}
	return false;
}

/* An embedded store names no seed: it is asked once, without an address. */
static int
n_seeds(const ZarisClient *client)
{
	return client->url.n_seeds > 0 ? client->url.n_seeds : 1;
}

static int
pick_seed(ZarisClient *client)
{
	int n = n_seeds(client);
	int start = (int) random_below(client, n);

	for (int i = 0; i < n; i++)
	{
		int seed = (start + i) % n;

		if (!seed_was_asked(client, seed))
			return seed;
	}
	return -1;
}

static bool
pick_candidate(ZarisClient *client, ZarisAddress *address)
{
	ZarisRefresh			   *refresh = &client->refresh;
	static const CandidateClass order[] = {CANDIDATE_KNOWN, CANDIDATE_SUSPECT, CANDIDATE_SEED, CANDIDATE_FORMER};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
	{
		int chosen = order[i] == CANDIDATE_SEED ? pick_seed(client) : pick_node(client, order[i]);

		if (chosen < 0)
			continue;
		if (order[i] == CANDIDATE_SEED)
		{
			refresh->asked_seed[chosen] = true;
			*address = client->url.seeds[chosen];
		}
		else
		{
			refresh->asked_node[chosen] = true;
			*address = client->map.now.nodes[chosen].address;
		}
		return true;
	}
	return false;
}

bool
zaris_refresh_want(ZarisClient *client, ZarisOperation *operation, int suspect)
{
	ZarisRefresh *refresh = &client->refresh;
	uint64_t	  now = zaris_client_read_clock(client);

	if (suspect != ZARIS_NO_NODE)
		refresh->suspect[suspect] = true;
	if (refresh->state != ZARIS_REFRESH_IDLE)
		return true;

	/*
	 * Debounce.  Within it an operation may have one refresh of its own, and only if nothing was learnt since it
	 * was routed: else it goes by what was learnt first.
	 */
	if (operation != NULL && refresh->last_success_us != 0 &&
		now - refresh->last_success_us < ZARIS_REFRESH_DEBOUNCE_US)
	{
		if (operation->forced_refresh || client->map.generation != operation->map_generation)
			return false;
		operation->forced_refresh = true;
	}

	/* Who waited for the one before must not be made to wait for this one as well, nor be mistaken for who does. */
	zaris_client_release_waiters(client);

	refresh->state = ZARIS_REFRESH_DUE;
	refresh->so_far = ZARIS_OK;
	refresh->so_far_text[0] = '\0';
	memset(refresh->asked_node, 0, sizeof(refresh->asked_node));
	memset(refresh->asked_seed, 0, sizeof(refresh->asked_seed));
	return true;
}

/* A failed refresh keeps the old map; the suspicion is over in either case, since everybody was asked. */
static void
end_refresh(ZarisClient *client, ZarisStatus status, const char *text)
{
	ZarisRefresh *refresh = &client->refresh;

	refresh->state = ZARIS_REFRESH_IDLE;
	refresh->ended = true;
	refresh->status = status;
	zaris_operation_set_text(refresh->text, text, strlen(text));
	memset(refresh->suspect, 0, sizeof(refresh->suspect));
	if (status == ZARIS_OK)
		refresh->last_success_us = zaris_client_read_clock(client);
}

/* What a node said is more telling than that another could not be reached. */
static void
note_failure(ZarisRefresh *refresh, ZarisStatus status, const char *text)
{
	if (refresh->so_far != ZARIS_OK && refresh->so_far != ZARIS_CONNECT_ERROR &&
		refresh->so_far != ZARIS_TRANSPORT_ERROR)
		return;
	refresh->so_far = status;
	zaris_operation_set_text(refresh->so_far_text, text, strlen(text));
}

void
zaris_refresh_step(ZarisClient *client)
{
	ZarisRefresh *refresh = &client->refresh;

	/* A loop, because a driver may answer at once. */
	while (refresh->state == ZARIS_REFRESH_DUE)
	{
		ZarisAddress address;

		if (!pick_candidate(client, &address))
		{
			end_refresh(client, refresh->so_far, refresh->so_far_text);
			return;
		}
		refresh->state = ZARIS_REFRESH_ASKING;
		client->stats.refreshes++;
		client->driver->fetch_map(client->store, &address);
	}
}

void
zaris_refresh_fetched(ZarisClient *client, ZarisStatus status, const ZarisTopology *topology, const char *text)
{
	ZarisRefresh *refresh = &client->refresh;

	ZARIS_ASSERT(refresh->state == ZARIS_REFRESH_ASKING);
	if (refresh->state != ZARIS_REFRESH_ASKING)
		return;

	if (status == ZARIS_OK && topology != NULL)
	{
		if (zaris_map_install(&client->map, topology))
		{
			end_refresh(client, ZARIS_OK, "");
			return;
		}
		status = ZARIS_UNAVAILABLE;
		text = zaris_topology_is_empty(topology) ? "node has an empty map" : "node has an older map";
	}
	else if (status == ZARIS_OK)
		status = ZARIS_PROTOCOL_ERROR;

	note_failure(refresh, status, text != NULL ? text : "");

	/*
	 * Without a map nothing can be done, so a refused login is everybody's; to offer it to the other nodes too would
	 * be knocking at all doors with a wrong key.  With a map it may be one node's fault.
	 */
	if (client->map.generation == 0 && zaris_status_class(status) == ZARIS_CLASS_FINAL)
		end_refresh(client, status, text != NULL ? text : "");
	else
		refresh->state = ZARIS_REFRESH_DUE;
}

bool
zaris_client_want_map(ZarisClient *client, uint64_t generation)
{
	if (client->map.generation > generation)
		return true;
	zaris_refresh_want(client, NULL, ZARIS_NO_NODE);
	return false;
}

bool
zaris_client_map_pending(const ZarisClient *client)
{
	return client->refresh.state != ZARIS_REFRESH_IDLE;
}

const char *
zaris_client_map_error(const ZarisClient *client, ZarisStatus *status)
{
	if (status != NULL)
		*status = client->refresh.status;

	/* Without words of its own a failure still has to be told from success. */
	if (client->refresh.status != ZARIS_OK && client->refresh.text[0] == '\0')
		return zaris_status_text(client->refresh.status);
	return client->refresh.text;
}
