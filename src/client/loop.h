/*
 * loop.h
 *	  The event loop and its byte streams: the only module that knows libuv.
 *
 * A turn never blocks.  Whoever waits does it outside, on zaris_loop_fd() and for at most
 * zaris_loop_timeout_ms(), then turns again:
 *
 *		for (;;)
 *		{
 *			zaris_loop_turn(loop);			-- last before waiting: libuv changes its epoll set lazily
 *			if (done) break;
 *			timeout = zaris_loop_timeout_ms(loop);		-- 0 means: turn again; timers do not make the fd readable
 *			wait for: fd readable, an interrupt, or timeout
 *		}
 *
 * Wrong: to wait without the turn, or with a timeout of your own that is longer.
 *
 * No threads are ever started (I13): names are resolved by zaris_resolve(), which blocks, before the loop.
 * Callbacks run inside zaris_loop_turn() only, never inside the call that started the work.  They only
 * move bytes and states (I2).  Closing is asynchronous: after zaris_stream_close() no callback comes any
 * more, and the stream's memory is freed by a later turn.
 */
#ifndef ZARIS_CLIENT_LOOP_H
#define ZARIS_CLIENT_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "map.h"

typedef struct ZarisLoop   ZarisLoop;
typedef struct ZarisStream ZarisStream;
typedef struct ZarisTimer  ZarisTimer;

#define ZARIS_MAX_RESOLVED 8

typedef struct ZarisResolved
{
	int n;
	struct
	{
		struct sockaddr_storage address;
		socklen_t				len;
	} at[ZARIS_MAX_RESOLVED];
} ZarisResolved;

typedef struct ZarisStreamCallbacks
{
	/* The connection stands (error == 0), or could not be made (error is a static text; the stream is to be closed). */
	void (*opened)(void *context, const char *error);

	/* Bytes came. They lie in the loop's shared buffer and are valid only during the call. */
	void (*received)(void *context, const char *data, size_t len);

	/* The peer closed (error == NULL), or the connection broke (a static text). The stream is to be closed. */
	void (*ended)(void *context, const char *error);
} ZarisStreamCallbacks;

/* NULL when out of memory or descriptors. Destroy closes whatever is still open; the fork's child must never use its parent's. */
extern ZarisLoop *zaris_loop_create(void);
extern void		  zaris_loop_destroy(ZarisLoop *loop);
extern int		  zaris_loop_fd(ZarisLoop *loop);
extern int		  zaris_loop_timeout_ms(ZarisLoop *loop); /* -1 = no timer; 0 = turn again */
extern void		  zaris_loop_turn(ZarisLoop *loop);		  /* never blocks; takes the clock anew first (I4) */

/* How many descriptors the loop holds by itself, for accounting. */
#define ZARIS_LOOP_DESCRIPTORS 8

/*
 * Resolve a host and port, or a socket's path, to addresses. Numeric hosts never block. False, with a static text in
 * *error, when there is none.
 */
extern bool zaris_resolve(const ZarisAddress *address, ZarisResolved *resolved, const char **error);

/* Begin to connect. NULL when out of memory or descriptors. context is handed to the callbacks. */
extern ZarisStream *zaris_stream_open(ZarisLoop *loop, const struct sockaddr *address, socklen_t len,
									  const ZarisStreamCallbacks *callbacks, void *context);
extern void			zaris_stream_close(ZarisStream *stream);

/*
 * Write bytes: at once as far as the kernel takes them, the rest is copied and written by later turns. False when the
 * stream is broken or memory is short; then `ended` follows or the caller closes.
 */
extern bool zaris_stream_write(ZarisStream *stream, const char *data, size_t len);

/*
 * Whether the peer still holds its end, looked up in the socket now (one system call): false when an end of stream lies
 * there unread.  Asked before an idle connection is used: what is written to a closed one is in doubt, and need not be.
 */
extern bool zaris_stream_is_alive(const ZarisStream *stream);

/* Bytes handed to the kernel since the stream was opened: what lies behind this point cannot have been executed. */
extern uint64_t zaris_stream_sent(const ZarisStream *stream);

/* One-shot timers. Setting one that runs moves it. at_us is on zaris_loop_now_us()'s clock. */
extern ZarisTimer *zaris_timer_create(ZarisLoop *loop, void (*fired)(void *context), void *context);
extern bool		   zaris_timer_set(ZarisTimer *timer, uint64_t at_us);
extern void		   zaris_timer_stop(ZarisTimer *timer);
extern void		   zaris_timer_destroy(ZarisTimer *timer);
extern uint64_t	   zaris_loop_now_us(void); /* CLOCK_MONOTONIC */

#endif /* ZARIS_CLIENT_LOOP_H */
