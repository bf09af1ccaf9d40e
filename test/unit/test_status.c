/*
 * test_status.c
 *	  The status list whole, and values from outside it.
 */
#include "client/status.h"

#include "test.h"

/* The list again by hand: what an application relies on must not change by accident. */
static const struct
{
	ZarisStatus status;
	const char *name;
	ZarisStatusClass class;
	ZarisStatusRefresh refresh;
} expected[] = {
	{ZARIS_OK, "Ok", ZARIS_CLASS_DONE, ZARIS_REFRESH_NONE},
	{ZARIS_NOT_FOUND, "NotFound", ZARIS_CLASS_ANSWER, ZARIS_REFRESH_NONE},
	{ZARIS_CONFLICT, "Conflict", ZARIS_CLASS_ANSWER, ZARIS_REFRESH_NONE},
	{ZARIS_MOVED, "Moved", ZARIS_CLASS_TRANSIENT, ZARIS_REFRESH_REFRESH},
	{ZARIS_OWNERSHIP_CHANGING, "OwnershipChanging", ZARIS_CLASS_TRANSIENT, ZARIS_REFRESH_REFRESH},
	{ZARIS_REPLICA_WRITE_REJECTED, "ReplicaWriteRejected", ZARIS_CLASS_TRANSIENT, ZARIS_REFRESH_REFRESH},
	{ZARIS_MIGRATING, "Migrating", ZARIS_CLASS_TRANSIENT, ZARIS_REFRESH_NONE},
	{ZARIS_UNAVAILABLE, "Unavailable", ZARIS_CLASS_TRANSIENT, ZARIS_REFRESH_SUSPECT},
	{ZARIS_TOO_MANY_CLIENTS, "TooManyClients", ZARIS_CLASS_TRANSIENT, ZARIS_REFRESH_NONE},
	{ZARIS_CONNECT_ERROR, "ConnectError", ZARIS_CLASS_TRANSIENT, ZARIS_REFRESH_SUSPECT},
	{ZARIS_TRANSPORT_ERROR, "TransportError", ZARIS_CLASS_TRANSIENT, ZARIS_REFRESH_SUSPECT},
	{ZARIS_DEADLINE_EXCEEDED, "DeadlineExceeded", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_CIRCUIT_OPEN, "CircuitOpen", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_OUTCOME_UNKNOWN, "OutcomeUnknown", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_UNAUTHENTICATED, "Unauthenticated", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_BAD_CREDENTIALS, "BadCredentials", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_PERMISSION_DENIED, "PermissionDenied", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_WRONG_TYPE, "WrongType", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_OUT_OF_MEMORY, "OutOfMemory", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_OUT_OF_STORAGE, "OutOfStorage", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_TOO_LARGE, "TooLarge", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_INVALID_REQUEST, "InvalidRequest", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_PROTOCOL_ERROR, "ProtocolError", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
	{ZARIS_NO_MEMORY, "NoMemory", ZARIS_CLASS_FINAL, ZARIS_REFRESH_NONE},
};

TEST(every_status_has_its_class)
{
	CHECK_INT(ZARIS_STATUS_COUNT, sizeof(expected) / sizeof(expected[0]));
	for (int i = 0; i < ZARIS_STATUS_COUNT; i++)
	{
		CHECK_INT(i, expected[i].status);
		CHECK_TEXT(expected[i].name, zaris_status_name(expected[i].status));
		CHECK_INT(expected[i].class, zaris_status_class(expected[i].status));
		CHECK_INT(expected[i].refresh, zaris_status_refresh(expected[i].status));
	}
}

TEST(names_differ_and_texts_keep_the_style)
{
	for (int i = 0; i < ZARIS_STATUS_COUNT; i++)
	{
		const char *text = zaris_status_text((ZarisStatus) i);

		CHECK(strlen(text) > 0);
		CHECK(text[0] >= 'a' && text[0] <= 'z');
		CHECK(text[strlen(text) - 1] != '.');
		for (int j = 0; j < i; j++)
			CHECK(strcmp(zaris_status_name((ZarisStatus) i), zaris_status_name((ZarisStatus) j)) != 0);
	}
}

TEST(a_value_from_outside_reads_as_protocol_error)
{
	const int outside[] = {ZARIS_STATUS_COUNT, ZARIS_STATUS_COUNT + 1, -1, 1000000, INT32_MIN};

	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
	{
		CHECK_TEXT("ProtocolError", zaris_status_name((ZarisStatus) outside[i]));
		CHECK_INT(ZARIS_CLASS_FINAL, zaris_status_class((ZarisStatus) outside[i]));
		CHECK_INT(ZARIS_REFRESH_NONE, zaris_status_refresh((ZarisStatus) outside[i]));
		CHECK_TEXT(zaris_status_text(ZARIS_PROTOCOL_ERROR), zaris_status_text((ZarisStatus) outside[i]));
	}
}

int
main(void)
{
	RUN(every_status_has_its_class);
	RUN(names_differ_and_texts_keep_the_style);
	RUN(a_value_from_outside_reads_as_protocol_error);
	return test_end();
}
