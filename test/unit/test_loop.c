/*
 * test_loop.c
 *	  Streams and timers on real sockets of this process: what arrives, what counts as sent, how things end.
 */
#include "client/loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "test.h"

static ZarisLoop *loop;

/* What a stream was told. */
typedef struct Heard
{
	ZarisStream *stream;
	int			 opened;
	int			 ended;
	char		 open_error[64];
	char		 end_error[64];
	char		*data;
	size_t		 len;
	bool		 closes_itself; /* at the first bytes */
} Heard;

static bool turning;

static void
note_opened(void *context, const char *error)
{
	Heard *heard = context;

	CHECK(turning);
	heard->opened++;
	snprintf(heard->open_error, sizeof(heard->open_error), "%s", error != NULL ? error : "");
}

static void
note_received(void *context, const char *data, size_t len)
{
	Heard *heard = context;

	CHECK(turning);
	heard->data = realloc(heard->data, heard->len + len);
	memcpy(heard->data + heard->len, data, len);
	heard->len += len;
	if (heard->closes_itself)
	{
		zaris_stream_close(heard->stream);
		heard->stream = NULL;
	}
}

static void
note_ended(void *context, const char *error)
{
	Heard *heard = context;

	CHECK(turning);
	heard->ended++;
	snprintf(heard->end_error, sizeof(heard->end_error), "%s", error != NULL ? error : "");
}

static const ZarisStreamCallbacks callbacks = {note_opened, note_received, note_ended};

static void
turn(void)
{
	turning = true;
	zaris_loop_turn(loop);
	turning = false;
}

/* Turn and wait as loop.h says, until the condition holds or half a minute has passed. */
#define TURN_UNTIL(condition) \
	do \
	{ \
		uint64_t give_up = zaris_loop_now_us() + UINT64_C(30000000); \
		for (;;) \
		{ \
			turn(); \
			if (condition) \
				break; \
			if (zaris_loop_now_us() > give_up) \
			{ \
				CHECK(!"waited in vain for " #condition); \
				break; \
			} \
			sleep_once(); \
		} \
	} while (0)

static void
sleep_once(void)
{
	int			  timeout = zaris_loop_timeout_ms(loop);
	struct pollfd look = {.fd = zaris_loop_fd(loop), .events = POLLIN};

	if (timeout != 0)
		poll(&look, 1, timeout < 0 || timeout > 1000 ? 1000 : timeout);
}

static int
listen_somewhere(ZarisAddress *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t		   len = sizeof(in);
	int				   fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_INT(0, bind(fd, (struct sockaddr *) &in, sizeof(in)));
	CHECK_INT(0, listen(fd, 5));
	CHECK_INT(0, getsockname(fd, (struct sockaddr *) &in, &len));
	CHECK(zaris_address_set(address, "127.0.0.1", 9, ntohs(in.sin_port)));
	return fd;
}

static void
connect_to(const ZarisAddress *address, Heard *heard)
{
	ZarisResolved resolved;
	const char	 *error;

	memset(heard, 0, sizeof(*heard));
	CHECK(zaris_resolve(address, &resolved, &error));
	heard->stream = zaris_stream_open(loop, (struct sockaddr *) &resolved.at[0].address, resolved.at[0].len, &callbacks,
									  heard);
	CHECK(heard->stream != NULL);
	CHECK_INT(0, heard->opened); /* never inside the call */
}

/* A connected pair: our stream, the peer's descriptor. */
static int
make_pair(Heard *heard)
{
	ZarisAddress address;
	int			 listener = listen_somewhere(&address);
	int			 peer;

	connect_to(&address, heard);
	peer = accept(listener, NULL, NULL);
	CHECK(peer >= 0);
	close(listener);
	TURN_UNTIL(heard->opened > 0);
	CHECK_INT(1, heard->opened);
	CHECK_TEXT("", heard->open_error);
	return peer;
}

static void
forget(Heard *heard)
{
	zaris_stream_close(heard->stream);
	free(heard->data);
}

/* streams */

TEST(bytes_go_to_and_fro)
{
	Heard heard;
	char  buffer[64];
	int	  peer = make_pair(&heard);

	CHECK(zaris_stream_write(heard.stream, "hello", 5));
	CHECK_INT(5, zaris_stream_sent(heard.stream));
	CHECK_INT(5, read(peer, buffer, sizeof(buffer)));
	CHECK_INT(6, write(peer, "a\0b\r\nc", 6));
	TURN_UNTIL(heard.len >= 6);
	CHECK_BYTES("a\0b\r\nc", heard.data, heard.len);
	CHECK(zaris_stream_is_alive(heard.stream));
	CHECK_INT(0, heard.ended);
	close(peer);
	CHECK(!zaris_stream_is_alive(heard.stream));
	TURN_UNTIL(heard.ended > 0);
	CHECK_TEXT("", heard.end_error);
	CHECK(!zaris_stream_write(heard.stream, "x", 1));
	for (int i = 0; i < 10; i++)
		turn();
	CHECK_INT(1, heard.ended);
	forget(&heard);
}

TEST(what_is_written_while_connecting_is_kept)
{
	ZarisAddress address;
	int			 listener = listen_somewhere(&address);
	Heard		 heard;
	char		 buffer[64];
	int			 peer;

	connect_to(&address, &heard);
	CHECK(zaris_stream_write(heard.stream, "early ", 6));
	CHECK(zaris_stream_write(heard.stream, "bird", 4));
	CHECK_INT(0, zaris_stream_sent(heard.stream));
	TURN_UNTIL(heard.opened > 0);
	peer = accept(listener, NULL, NULL);
	CHECK_INT(10, zaris_stream_sent(heard.stream));
	CHECK_INT(10, read(peer, buffer, sizeof(buffer)));
	close(peer);
	close(listener);
	forget(&heard);
}

/* More than the kernel takes: the rest goes out by and by, in order, and `sent` counts what is really out. */
TEST(a_backlog)
{
	static char	 sent[8 * 1024 * 1024];
	static char	 got[sizeof(sent) * 2];
	Heard		 heard;
	int			 peer = make_pair(&heard);
	size_t		 n = 0;
	uint64_t	 at_first;
	const size_t total = sizeof(sent) * 2;

	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char) (i * 7 + i / 251);
	CHECK(zaris_stream_write(heard.stream, sent, sizeof(sent)));
	CHECK(zaris_stream_write(heard.stream, sent, sizeof(sent)));
	at_first = zaris_stream_sent(heard.stream);
	CHECK(at_first > 0 && at_first < total);
	while (n < total)
	{
		struct pollfd look = {.fd = peer, .events = POLLIN};

		turn();
		if (poll(&look, 1, 0) > 0)
		{
			ssize_t len = read(peer, got + n, sizeof(got) - n);

			CHECK(len > 0);
			n += len > 0 ? (size_t) len : total;
		}
		CHECK(zaris_stream_sent(heard.stream) >= n);
	}
	CHECK(memcmp(got, sent, sizeof(sent)) == 0 && memcmp(got + sizeof(sent), sent, sizeof(sent)) == 0);
	CHECK_INT(total, zaris_stream_sent(heard.stream));
	CHECK(zaris_stream_write(heard.stream, "x", 1));
	CHECK_INT(total + 1, zaris_stream_sent(heard.stream));
	close(peer);
	forget(&heard);
}

TEST(a_refused_connection)
{
	ZarisAddress address;
	Heard		 heard;

	close(listen_somewhere(&address)); /* nobody listens there any more */
	connect_to(&address, &heard);
	CHECK(zaris_stream_write(heard.stream, "x", 1));
	TURN_UNTIL(heard.opened > 0);
	CHECK_TEXT("connection refused", heard.open_error);
	CHECK_INT(0, zaris_stream_sent(heard.stream));
	CHECK_INT(0, heard.ended);
	CHECK(!zaris_stream_is_alive(heard.stream));
	forget(&heard);
}

TEST(a_socket_by_its_path)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	ZarisAddress	   address = {.port = 0};
	Heard			   heard;
	int				   listener = socket(AF_UNIX, SOCK_STREAM, 0);
	int				   peer;
	char			   buffer[8];

	snprintf(un.sun_path, sizeof(un.sun_path), "build/socket.%d", (int) getpid());
	unlink(un.sun_path);
	snprintf(address.host, sizeof(address.host), "%s", un.sun_path);

	/* There is no such file: told by a turn, as everything is. */
	connect_to(&address, &heard);
	CHECK_INT(0, zaris_loop_timeout_ms(loop));
	TURN_UNTIL(heard.opened > 0);
	CHECK_TEXT("no such file or directory", heard.open_error);
	forget(&heard);

	CHECK_INT(0, bind(listener, (struct sockaddr *) &un, sizeof(un)));
	CHECK_INT(0, listen(listener, 1));
	connect_to(&address, &heard);
	peer = accept(listener, NULL, NULL);
	TURN_UNTIL(heard.opened > 0);
	CHECK_TEXT("", heard.open_error);
	CHECK(zaris_stream_write(heard.stream, "abc", 3));
	CHECK_INT(3, read(peer, buffer, sizeof(buffer)));
	close(peer);
	close(listener);
	unlink(un.sun_path);
	forget(&heard);
}

/* Answers that came before the connection broke are still answers: they may decide about a write. */
TEST(bytes_before_a_reset_are_read)
{
	Heard		  heard;
	int			  peer = make_pair(&heard);
	struct linger reset = {1, 0};

	CHECK_INT(6, write(peer, "answer", 6));
	CHECK_INT(0, setsockopt(peer, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)));
	close(peer); /* RST */
	signal(SIGPIPE, SIG_DFL);
	for (int i = 0; i < 3; i++)
		zaris_stream_write(heard.stream, "more", 4); /* a signal would end the test here */
	TURN_UNTIL(heard.ended > 0);
	CHECK_BYTES("answer", heard.data, heard.len);
	CHECK_INT(1, heard.ended);
	forget(&heard);
}

TEST(a_stream_that_closes_itself)
{
	Heard heard;
	int	  peer = make_pair(&heard);
	char  byte;

	heard.closes_itself = true;
	CHECK_INT(4, write(peer, "once", 4));
	TURN_UNTIL(heard.len > 0);
	CHECK_INT(0, read(peer, &byte, 1)); /* it is closed for the peer, too */
	for (int i = 0; i < 5; i++)
		turn();
	CHECK_INT(4, heard.len);
	CHECK_INT(0, heard.ended);
	close(peer);
	free(heard.data);
}

TEST(a_loop_that_is_destroyed_with_everything_open)
{
	ZarisAddress address;
	ZarisLoop	*usual = loop;
	Heard		 heard[3];
	int			 listener = listen_somewhere(&address);

	loop = zaris_loop_create();
	for (int i = 0; i < 3; i++)
	{
		connect_to(&address, &heard[i]);
		zaris_stream_write(heard[i].stream, "x", 1);
	}
	zaris_timer_set(zaris_timer_create(loop, NULL, NULL), zaris_loop_now_us() + 1000000);
	zaris_stream_close(heard[1].stream);
	zaris_loop_destroy(loop);
	zaris_loop_destroy(NULL);
	close(listener);
	loop = usual;
}

/* timers */

typedef struct Alarm
{
	ZarisTimer	 *timer;
	int			  fired;
	uint64_t	  again_at; /* set itself once more */
	struct Alarm *kills;
} Alarm;

static void
fired(void *context)
{
	Alarm *alarm = context;

	CHECK(turning);
	alarm->fired++;
	if (alarm->again_at != 0)
		zaris_timer_set(alarm->timer, alarm->again_at);
	if (alarm->kills != NULL)
	{
		zaris_timer_destroy(alarm->kills->timer);
		alarm->kills = NULL;
	}
}

TEST(timers)
{
	Alarm	 alarm[3] = {0};
	uint64_t now = zaris_loop_now_us();

	CHECK_INT(-1, zaris_loop_timeout_ms(loop));
	for (int i = 0; i < 3; i++)
		alarm[i].timer = zaris_timer_create(loop, fired, &alarm[i]);
	CHECK_INT(-1, zaris_loop_timeout_ms(loop));
	zaris_timer_set(alarm[0].timer, now + 20000);
	zaris_timer_set(alarm[1].timer, now + 40000);
	zaris_timer_set(alarm[2].timer, now + 3600 * UINT64_C(1000000));
	CHECK(zaris_loop_timeout_ms(loop) <= 20);
	turn();
	CHECK_INT(0, alarm[0].fired);
	TURN_UNTIL(alarm[0].fired > 0);
	CHECK(zaris_loop_now_us() >= now + 20000);
	CHECK_INT(0, alarm[1].fired);
	zaris_timer_set(alarm[1].timer, zaris_loop_now_us() + 3600 * UINT64_C(1000000)); /* moved */
	turn();
	CHECK(zaris_loop_timeout_ms(loop) > 1000000);
	zaris_timer_stop(alarm[1].timer);
	zaris_timer_stop(alarm[2].timer);
	turn();
	for (int i = 0; i < 3; i++)
		zaris_timer_destroy(alarm[i].timer);
	zaris_timer_destroy(NULL);
	CHECK_INT(1, alarm[0].fired);
	CHECK_INT(0, alarm[1].fired + alarm[2].fired);
	turn();
	CHECK_INT(-1, zaris_loop_timeout_ms(loop));
}

TEST(timers_that_meddle_with_timers)
{
	Alarm alarm[3] = {0};

	for (int i = 0; i < 3; i++)
	{
		alarm[i].timer = zaris_timer_create(loop, fired, &alarm[i]);
		zaris_timer_set(alarm[i].timer, 1);
	}
	alarm[0].again_at = 1; /* always due: once a turn all the same */
	alarm[1].kills = &alarm[2];
	turn();
	CHECK_INT(1, alarm[0].fired);
	CHECK_INT(1, alarm[1].fired);
	CHECK_INT(0, alarm[2].fired);
	CHECK_INT(0, zaris_loop_timeout_ms(loop));
	turn();
	CHECK_INT(2, alarm[0].fired);
	zaris_timer_destroy(alarm[0].timer);
	zaris_timer_destroy(alarm[1].timer);
}

/* What came while nobody turned is taken before the clock has its say. */
typedef struct Race
{
	Heard *heard;
	size_t len_when_fired;
} Race;

static void
race_fired(void *context)
{
	Race *race = context;

	race->len_when_fired = race->heard->len;
}

TEST(bytes_before_timers)
{
	Heard		heard;
	int			peer = make_pair(&heard);
	Race		race = {&heard, 99};
	ZarisTimer *timer = zaris_timer_create(loop, race_fired, &race);

	zaris_timer_set(timer, zaris_loop_now_us() + 1000);
	CHECK_INT(3, write(peer, "now", 3));
	usleep(20000);
	turn();
	CHECK_INT(3, race.len_when_fired);
	zaris_timer_destroy(timer);
	close(peer);
	forget(&heard);
}

/* names */

TEST(names)
{
	ZarisResolved resolved;
	ZarisAddress  address;
	const char	 *error;
	char		  host[ZARIS_HOST_LEN];

	CHECK(zaris_address_set(&address, "127.0.0.1", 9, 7000));
	CHECK(zaris_resolve(&address, &resolved, &error));
	CHECK_INT(1, resolved.n);
	CHECK_INT(AF_INET, resolved.at[0].address.ss_family);
	CHECK(zaris_address_set(&address, "::1", 3, 7000));
	CHECK(zaris_resolve(&address, &resolved, &error));
	CHECK_INT(AF_INET6, resolved.at[0].address.ss_family);
	CHECK(zaris_address_set(&address, "localhost", 9, 65535));
	CHECK(zaris_resolve(&address, &resolved, &error));
	CHECK(resolved.n >= 1 && resolved.n <= ZARIS_MAX_RESOLVED);

	CHECK(zaris_address_set(&address, "no-such-host.invalid", 20, 1));
	CHECK(!zaris_resolve(&address, &resolved, &error));
	CHECK(error != NULL && error[0] != '\0');
	CHECK_INT(0, resolved.n);

	memset(host, 'p', sizeof(host) - 1);
	host[sizeof(host) - 1] = '\0';
	address.port = 0;
	memcpy(address.host, host, sizeof(host)); /* longer than a socket's path may be */
	CHECK(!zaris_resolve(&address, &resolved, &error));
}

int
main(void)
{
	loop = zaris_loop_create();
	RUN(bytes_go_to_and_fro);
	RUN(what_is_written_while_connecting_is_kept);
	RUN(a_backlog);
	RUN(a_refused_connection);
	RUN(a_socket_by_its_path);
	RUN(bytes_before_a_reset_are_read);
	RUN(a_stream_that_closes_itself);
	RUN(a_loop_that_is_destroyed_with_everything_open);
	RUN(timers);
	RUN(timers_that_meddle_with_timers);
	RUN(bytes_before_timers);
	RUN(names);
	zaris_loop_destroy(loop);
	return test_end();
}
