/*
 * loop.c
 *	  Byte streams and timers over libuv; the only file that includes uv.h.
 *
 * Streams are plain sockets watched by uv_poll, not uv_stream: so the bytes that the kernel took are counted
 * exactly (what it did not take cannot have been executed, which is how a write is known to be NotSent), a broken
 * pipe raises no signal whatever the host did with SIGPIPE, and bytes that arrived before a reset are still read:
 * each of them may be the answer that decides about a write.
 *
 * A stream:	connecting -> open -> over
 *
 *	 connecting	the kernel connects; what is written meanwhile is kept
 *	 open		bytes move
 *	 over		`opened` or `ended` told of an error, or is about to: nothing moves any more
 *
 * Timers are ours, not libuv's, which fires its own before it looks at the sockets: a loop that nobody turned for a
 * while would then end by its clock what has been answered long ago.
 *
 * Errors that are met outside a turn (connect() that fails at once, a write into a broken pipe) are told by the
 * next turn: such streams stand in loop->due, and while one stands there the timeout is 0.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* POLLRDHUP */
#endif

#include "client/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "client/check.h"
#include "client/list.h"

#define READ_BUFFER	 (256 * 1024)
#define READS_A_TURN 16			 /* of a full buffer, so that one fast node does not starve the others */
#define KEEP_BACKLOG (64 * 1024) /* memory that an emptied backlog keeps */

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

typedef enum StreamState
{
	STREAM_CONNECTING,
	STREAM_OPEN,
	STREAM_OVER
} StreamState;

struct ZarisStream
{
	uv_poll_t					poll; /* first: libuv hands it back */
	ZarisLoop				   *loop;
	ZarisLink					open; /* loop->streams until it is closed */
	ZarisLink					due;  /* loop->due while there is an error to tell */
	bool						closing;
	StreamState					state;
	int							fd;
	int							watched; /* UV_READABLE | UV_WRITABLE, as last asked for */
	const char				   *error;	 /* to be told by the next turn */
	const ZarisStreamCallbacks *callbacks;
	void					   *context;
	uint64_t					sent;
	char					   *backlog; /* bytes that the kernel did not take yet: [backlog_start, backlog_end) */
	size_t						backlog_start;
	size_t						backlog_end;
	size_t						backlog_size;
};

struct ZarisTimer
{
	ZarisLoop *loop;
	ZarisLink  known;	/* loop->timers */
	ZarisLink  running; /* loop->running while it is set */
	uint64_t   at_us;
	void (*fired)(void *context);
	void *context;
};

struct ZarisLoop
{
	uv_loop_t uv;
	ZarisLink streams;
	ZarisLink due;
	ZarisLink timers;
	ZarisLink running;			 /* timers that are set, in no order: they are few */
	uint64_t  earliest_us;		 /* of the timers that are set */
	bool	  earliest_is_stale; /* it may be too early: one was stopped or moved */
	char	 *buffer;			 /* shared: a callback uses what it needs before it returns */
};

/* The text for an errno; static as long as libuv knows the code. */
static const char *
error_text(int error)
{
	int code = uv_translate_sys_error(error);

	switch (code)
	{
#define KNOWN_ERROR(name, text) \
	case UV_##name: \
		return text;
		UV_ERRNO_MAP(KNOWN_ERROR)
#undef KNOWN_ERROR
		default:
			return "unknown error";
	}
}

/* the loop */

ZarisLoop *
zaris_loop_create(void)
{
	ZarisLoop *loop = calloc(1, sizeof(*loop));

	if (loop == NULL)
		return NULL;
	loop->buffer = malloc(READ_BUFFER);
	if (loop->buffer == NULL || uv_loop_init(&loop->uv) != 0)
	{
		free(loop->buffer);
		free(loop);
		return NULL;
	}
	zaris_link_init(&loop->streams);
	zaris_link_init(&loop->due);
	zaris_link_init(&loop->timers);
	zaris_link_init(&loop->running);
	loop->earliest_us = UINT64_MAX;
	return loop;
}

void
zaris_loop_destroy(ZarisLoop *loop)
{
	if (loop == NULL)
		return;
	while (!zaris_link_is_alone(&loop->streams))
		zaris_stream_close(ZARIS_OF_LINK(ZarisStream, open, loop->streams.next));
	while (!zaris_link_is_alone(&loop->timers))
		zaris_timer_destroy(ZARIS_OF_LINK(ZarisTimer, known, loop->timers.next));

	/* Closing needs turns; with nothing open each of them ends at once. */
	while (uv_loop_alive(&loop->uv))
		uv_run(&loop->uv, UV_RUN_NOWAIT);
	uv_loop_close(&loop->uv);
	free(loop->buffer);
	free(loop);
}

int
zaris_loop_fd(ZarisLoop *loop)
{
	return uv_backend_fd(&loop->uv);
}

static void
look_for_earliest(ZarisLoop *loop)
{
	if (!loop->earliest_is_stale)
		return;
	loop->earliest_is_stale = false;
	loop->earliest_us = UINT64_MAX;
	for (ZarisLink *link = loop->running.next; link != &loop->running; link = link->next)
	{
		const ZarisTimer *timer = ZARIS_OF_LINK(const ZarisTimer, running, link);

		if (timer->at_us < loop->earliest_us)
			loop->earliest_us = timer->at_us;
	}
}

int
zaris_loop_timeout_ms(ZarisLoop *loop)
{
	uint64_t now;
	uint64_t left_ms;

	if (!zaris_link_is_alone(&loop->due))
		return 0;

	/* Work that libuv has put off to its next run. It also says 0 for a loop with nothing in it: no reason to spin. */
	if (uv_loop_alive(&loop->uv) && uv_backend_timeout(&loop->uv) == 0)
		return 0;
	look_for_earliest(loop);
	if (loop->earliest_us == UINT64_MAX)
		return -1;

	now = zaris_loop_now_us();
	left_ms = loop->earliest_us > now ? (loop->earliest_us - now + 999) / 1000 : 0;
	return left_ms > INT_MAX ? INT_MAX : (int) left_ms;
}

uint64_t
zaris_loop_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * UINT64_C(1000000) + (uint64_t) now.tv_nsec / 1000;
}

/* names */

static bool
resolve_socket(const ZarisAddress *address, ZarisResolved *resolved, const char **error)
{
	struct sockaddr_un *un = (struct sockaddr_un *) &resolved->at[0].address;
	size_t				len = strlen(address->host);

	if (len == 0 || len >= sizeof(un->sun_path))
	{
		*error = "invalid path of a socket";
		return false;
	}
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, address->host, len + 1);
	resolved->at[0].len = (socklen_t) sizeof(*un);
	resolved->n = 1;
	return true;
}

bool
zaris_resolve(const ZarisAddress *address, ZarisResolved *resolved, const char **error)
{
	struct addrinfo	 hints = {0};
	struct addrinfo *found = NULL;
	char			 port[16];
	int				 code;

	resolved->n = 0;
	*error = NULL;
	if (address->port == 0)
		return resolve_socket(address, resolved, error);

	snprintf(port, sizeof(port), "%d", address->port);
	hints.ai_family = AF_UNSPEC;
	hints.ai_socktype = SOCK_STREAM;

	/* A number first, by itself: so it is certain that it asks nobody. */
	hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	code = getaddrinfo(address->host, port, &hints, &found);
	if (code != 0)
	{
		hints.ai_flags = AI_NUMERICSERV;
		code = getaddrinfo(address->host, port, &hints, &found);
	}
	if (code != 0)
	{
		*error = code == EAI_SYSTEM ? error_text(errno) : gai_strerror(code);
		return false;
	}
	for (struct addrinfo *info = found; info != NULL && resolved->n < ZARIS_MAX_RESOLVED; info = info->ai_next)
	{
		if (info->ai_addrlen > sizeof(resolved->at[0].address))
			continue;
		memcpy(&resolved->at[resolved->n].address, info->ai_addr, info->ai_addrlen);
		resolved->at[resolved->n].len = info->ai_addrlen;
		resolved->n++;
	}
	freeaddrinfo(found);
	if (resolved->n == 0)
		*error = "host name has no address";
	return resolved->n > 0;
}

/* streams: states */

static void on_poll(uv_poll_t *poll, int status, int events);

/* Ask libuv for what the stream waits for now. */
static void
watch(ZarisStream *stream)
{
	int wanted = 0;

	if (stream->state == STREAM_CONNECTING)
		wanted = UV_WRITABLE;
	else if (stream->state == STREAM_OPEN)
		wanted = stream->backlog_end > stream->backlog_start ? UV_READABLE | UV_WRITABLE : UV_READABLE;

	if (wanted == stream->watched)
		return;
	stream->watched = wanted;
	if (wanted == 0)
		uv_poll_stop(&stream->poll);
	else
		uv_poll_start(&stream->poll, wanted, on_poll);
}

/* Have the next turn tell of an error. */
static void
tell_later(ZarisStream *stream, const char *error)
{
	if (stream->error == NULL)
		stream->error = error;
	if (zaris_link_is_alone(&stream->due))
		zaris_link_add(&stream->loop->due, &stream->due);
}

/* Nothing moves any more; tell why. NULL = the peer closed. */
static void
end_stream(ZarisStream *stream, const char *error)
{
	bool was_connecting = stream->state == STREAM_CONNECTING;

	if (stream->state == STREAM_OVER)
		return;
	stream->state = STREAM_OVER;
	watch(stream);
	if (was_connecting)
		stream->callbacks->opened(stream->context, error);
	else
		stream->callbacks->ended(stream->context, error);
}

/* streams: bytes */

/* Read what is there. After each callback the stream may be closing. */
static void
read_all(ZarisStream *stream)
{
	for (int reads = 0; reads < READS_A_TURN; reads++)
	{
		ssize_t len = recv(stream->fd, stream->loop->buffer, READ_BUFFER, 0);

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (len <= 0)
		{
			end_stream(stream, len == 0 ? NULL : error_text(errno));
			return;
		}
		stream->callbacks->received(stream->context, stream->loop->buffer, (size_t) len);
		if (stream->closing || stream->state != STREAM_OPEN)
			return;
		if (len < READ_BUFFER)
			return; /* that was all; if not, the kernel will say so */
	}
}

/*
 * Hand bytes to the kernel: how many it took. On a broken stream false; what it had taken before counts as sent
 * all the same.
 */
static bool
send_some(ZarisStream *stream, const char *data, size_t len, size_t *taken)
{
	*taken = 0;
	while (*taken < len)
	{
		ssize_t n = send(stream->fd, data + *taken, len - *taken, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return true;
		if (n < 0)
		{
			tell_later(stream, error_text(errno));
			return false;
		}
		*taken += (size_t) n;
		stream->sent += (uint64_t) n;
	}
	return true;
}

static bool
keep_backlog(ZarisStream *stream, const char *data, size_t len)
{
	size_t kept = stream->backlog_end - stream->backlog_start;

	if (len > SIZE_MAX / 4 - kept)
		return false;
	if (stream->backlog_start > 0)
	{
		memmove(stream->backlog, stream->backlog + stream->backlog_start, kept);
		stream->backlog_start = 0;
		stream->backlog_end = kept;
	}
	if (kept + len > stream->backlog_size)
	{
		size_t size = (kept + len) * 2;
		char  *larger = realloc(stream->backlog, size);

		if (larger == NULL)
			return false;
		stream->backlog = larger;
		stream->backlog_size = size;
	}
	memcpy(stream->backlog + kept, data, len);
	stream->backlog_end += len;
	return true;
}

static void
send_backlog(ZarisStream *stream)
{
	size_t taken;

	send_some(stream, stream->backlog + stream->backlog_start, stream->backlog_end - stream->backlog_start, &taken);
	stream->backlog_start += taken;
	if (stream->backlog_start < stream->backlog_end)
		return;

	stream->backlog_start = stream->backlog_end = 0;
	if (stream->backlog_size > KEEP_BACKLOG)
	{
		free(stream->backlog);
		stream->backlog = NULL;
		stream->backlog_size = 0;
	}
}

bool
zaris_stream_write(ZarisStream *stream, const char *data, size_t len)
{
	size_t taken = 0;

	if (stream->closing || stream->state == STREAM_OVER || stream->error != NULL)
		return false;
	if (stream->state == STREAM_OPEN && stream->backlog_start == stream->backlog_end)
	{
		if (!send_some(stream, data, len, &taken))
			return false;
	}
	if (taken < len && !keep_backlog(stream, data + taken, len - taken))
	{
		/* A part of a command is out: nothing can follow it. */
		tell_later(stream, "out of memory");
		return false;
	}
	watch(stream);
	return true;
}

#ifndef POLLRDHUP
#define POLLRDHUP 0
#endif

bool
zaris_stream_is_alive(const ZarisStream *stream)
{
	struct pollfd look = {.fd = stream->fd, .events = POLLIN | POLLRDHUP};
	char		  byte;

	if (stream->closing || stream->state != STREAM_OPEN || stream->error != NULL)
		return false;
	if (poll(&look, 1, 0) <= 0)
		return true; /* nothing lies there at all */
	if (look.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))
		return false;
	return recv(stream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

uint64_t
zaris_stream_sent(const ZarisStream *stream)
{
	return stream->sent;
}

/* streams: events */

static int
socket_error(int fd)
{
	int		  error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		return errno;
	return error;
}

static void
finish_connecting(ZarisStream *stream)
{
	int error = socket_error(stream->fd);

	if (error != 0)
	{
		end_stream(stream, error_text(error));
		return;
	}
	stream->state = STREAM_OPEN;
	if (stream->backlog_end > stream->backlog_start)
		send_backlog(stream);
	watch(stream);
	stream->callbacks->opened(stream->context, NULL);
}

static void
on_poll(uv_poll_t *poll, int status, int events)
{
	ZarisStream *stream = (ZarisStream *) poll;

	if (stream->closing || stream->state == STREAM_OVER)
		return;

	/* libuv stops watching when the kernel reports an error; the socket itself knows which. */
	if (status < 0)
	{
		stream->watched = 0;
		events = UV_READABLE | UV_WRITABLE;
	}
	if (stream->state == STREAM_CONNECTING)
	{
		finish_connecting(stream);
		return;
	}
	if (events & UV_READABLE)
		read_all(stream);
	if (stream->closing || stream->state == STREAM_OVER)
		return;
	if ((events & UV_WRITABLE) && stream->backlog_end > stream->backlog_start)
		send_backlog(stream);
	watch(stream);
}

/* Tell of what went wrong outside a turn. First what had come in before: it may hold answers. */
static void
tell_due(ZarisLoop *loop)
{
	while (!zaris_link_is_alone(&loop->due))
	{
		ZarisStream *stream = ZARIS_OF_LINK(ZarisStream, due, loop->due.next);

		zaris_link_remove(&stream->due);
		if (stream->state == STREAM_OPEN)
			read_all(stream);
		if (!stream->closing)
			end_stream(stream, stream->error);
	}
}

/*
 * Fire what is due. A callback may set, stop and destroy any timer: so the due ones move to a list of this turn, from
 * which that takes them off.
 */
static void
fire_timers(ZarisLoop *loop)
{
	uint64_t   now;
	ZarisLink  due;
	ZarisLink *link;
	ZarisLink *following;

	if (loop->earliest_us == UINT64_MAX)
		return;
	now = zaris_loop_now_us();
	if (now < loop->earliest_us)
		return;

	zaris_link_init(&due);
	loop->earliest_us = UINT64_MAX;
	ZARIS_EACH_LINK(link, following, &loop->running)
	{
		ZarisTimer *timer = ZARIS_OF_LINK(ZarisTimer, running, link);

		if (timer->at_us <= now)
		{
			zaris_link_remove(link);
			zaris_link_add(&due, link);
		}
		else if (timer->at_us < loop->earliest_us)
			loop->earliest_us = timer->at_us;
	}
	while (!zaris_link_is_alone(&due))
	{
		ZarisTimer *timer = ZARIS_OF_LINK(ZarisTimer, running, due.next);

		zaris_link_remove(&timer->running);
		timer->fired(timer->context);
	}
}

void
zaris_loop_turn(ZarisLoop *loop)
{
	tell_due(loop);
	uv_run(&loop->uv, UV_RUN_NOWAIT);
	fire_timers(loop); /* last: what came is taken before the clock has its say */
}

/* streams: life */

static void
release_stream(ZarisStream *stream)
{
	free(stream->backlog);
	free(stream);
}

static void
on_poll_closed(uv_handle_t *handle)
{
	release_stream((ZarisStream *) handle);
}

void
zaris_stream_close(ZarisStream *stream)
{
	if (stream == NULL || stream->closing)
		return;
	stream->closing = true;
	stream->state = STREAM_OVER;
	zaris_link_remove(&stream->due);
	zaris_link_remove(&stream->open);

	/* libuv must stop watching before the number can belong to another file. */
	uv_close((uv_handle_t *) &stream->poll, on_poll_closed);
	close(stream->fd);
}

static void
set_options(int fd, int family)
{
	int on = 1;

	if (family == AF_UNIX)
		return;

	/* Best effort: a connection without them works too. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static int
open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM, 0);

	if (fd < 0)
		return -1;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
	{
		close(fd);
		return -1;
	}
	set_options(fd, family);
	return fd;
}

ZarisStream *
zaris_stream_open(ZarisLoop *loop, const struct sockaddr *address, socklen_t len,
				  const ZarisStreamCallbacks *callbacks, void *context)
{
	ZarisStream *stream = calloc(1, sizeof(*stream));
	int			 result;

	if (stream == NULL)
		return NULL;
	stream->fd = open_socket(address->sa_family);
	if (stream->fd < 0)
	{
		free(stream);
		return NULL;
	}
	if (uv_poll_init(&loop->uv, &stream->poll, stream->fd) != 0)
	{
		close(stream->fd);
		free(stream);
		return NULL;
	}
	stream->loop = loop;
	stream->callbacks = callbacks;
	stream->context = context;
	stream->state = STREAM_CONNECTING;
	zaris_link_init(&stream->due);
	zaris_link_init(&stream->open);
	zaris_link_add(&loop->streams, &stream->open);

	do
		result = connect(stream->fd, address, len);
	while (result != 0 && errno == EINTR);

	/* A unix socket connects at once; `opened` is told by a turn in any case. */
	if (result != 0 && errno != EINPROGRESS)
		tell_later(stream, error_text(errno));
	else
		watch(stream);
	return stream;
}

/* timers */

ZarisTimer *
zaris_timer_create(ZarisLoop *loop, void (*fired)(void *context), void *context)
{
	ZarisTimer *timer = calloc(1, sizeof(*timer));

	if (timer == NULL)
		return NULL;
	timer->loop = loop;
	timer->fired = fired;
	timer->context = context;
	zaris_link_init(&timer->running);
	zaris_link_init(&timer->known);
	zaris_link_add(&loop->timers, &timer->known);
	return timer;
}

/* Take it out of those that are set. Who was the earliest is looked up when it is asked for. */
static void
unset_timer(ZarisTimer *timer)
{
	if (!zaris_link_is_alone(&timer->running) && timer->at_us <= timer->loop->earliest_us)
		timer->loop->earliest_is_stale = true;
	zaris_link_remove(&timer->running);
}

bool
zaris_timer_set(ZarisTimer *timer, uint64_t at_us)
{
	unset_timer(timer);
	zaris_link_add(&timer->loop->running, &timer->running);
	timer->at_us = at_us;
	if (at_us < timer->loop->earliest_us)
		timer->loop->earliest_us = at_us;
	return true;
}

void
zaris_timer_stop(ZarisTimer *timer)
{
	unset_timer(timer);
}

void
zaris_timer_destroy(ZarisTimer *timer)
{
	if (timer == NULL)
		return;
	unset_timer(timer);
	zaris_link_remove(&timer->known);
	free(timer);
}
