# The embedded store: a server without a url works with PostgreSQL alone.  What SQL says to it, two sessions that want one
# record, who may use it, how it is removed, and what is left of it after a crash.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Time::HiRes qw(sleep time);
use Zaris::Pg;
use Zaris::Process;

my $pg = Zaris::Pg->new(conf => "restart_after_crash = on\n");
$pg->sql('CREATE SERVER local FOREIGN DATA WRAPPER zaris_fdw');
$pg->table('item', 'id int, value text, version bigint, expires_at timestamptz', server => 'local', key => 'item:<id>');
$pg->table('pair', 'id int, a text, b text, version bigint', server => 'local', key => 'pair:<id>', layout => 'hash');
$pg->table('counter', 'id int, n int', server => 'local', key => 'counter:<id>');
$pg->table('long', 'name text, value text', server => 'local', key => 'long:<name>');

sub gives { is($pg->sql($_[0]), $_[1], $_[2] // $_[0]); return }

# ---- one value a key

gives('SELECT count(*) FROM item', '0', 'a new store is empty');
gives(q{INSERT INTO item (id, value) VALUES (1, 'one'), (2, 'two'), (3, '') RETURNING id, value}, "1|one\n2|two\n3|", 'INSERT');
gives('SELECT id, value FROM item WHERE id IN (1, 3, 4) ORDER BY id', "1|one\n3|", 'lookups');
gives('SELECT id, value FROM item ORDER BY id', "1|one\n2|two\n3|", 'a scan');
$pg->fails_with('23505', q{INSERT INTO item (id, value) VALUES (1, 'uno')}, 'a key that exists');
gives(q{INSERT INTO item (id, value) VALUES (1, 'uno'), (4, 'four') ON CONFLICT DO NOTHING RETURNING id}, '4', 'ON CONFLICT DO NOTHING');
gives(q{UPDATE item SET value = upper(value) WHERE id <= 2 RETURNING id, value}, "1|ONE\n2|TWO", 'UPDATE that reads first');
gives(q{WITH u AS (UPDATE item SET value = 'x' WHERE id IN (2, 99) RETURNING id) SELECT * FROM u}, '2', 'UPDATE of named keys');
gives('DELETE FROM item WHERE id IN (3, 4, 5) RETURNING id', "3\n4", 'DELETE');
gives(q{UPDATE item SET id = 20 WHERE id = 2; SELECT id, value FROM item ORDER BY id}, "1|ONE\n20|x", 'UPDATE of a key');
gives(q{BEGIN; UPDATE item SET value = 'kept' WHERE id = 1; ROLLBACK; SELECT value FROM item WHERE id = 1}, 'kept',
	'a write is not undone by ROLLBACK, as in every store');

# ---- one hash a key

gives(q{INSERT INTO pair (id, a, b) VALUES (1, 'x', NULL), (2, NULL, 'y'); SELECT id, a, b FROM pair ORDER BY id}, "1|x|\n2||y", 'hash: INSERT');
gives(q{UPDATE pair SET b = 'z' WHERE id = 1; SELECT a, b FROM pair WHERE id = 1}, 'x|z', 'hash: UPDATE of one field');
$pg->fails_with('23505', q{INSERT INTO pair (id, a) VALUES (1, 'again')}, 'hash: a key that exists');
gives(q{DELETE FROM pair WHERE a IS NULL; SELECT id FROM pair}, '1', 'hash: DELETE');
$pg->sql(q{COPY pair (id, a, b) FROM PROGRAM 'seq 10 2509 | sed "s/.*/&\t&\t&/"'});
gives('SELECT count(*), count(*) FILTER (WHERE a = id::text AND b = a) FROM pair WHERE id >= 10', '2500|2500', 'COPY');
gives('SELECT count(*) FROM pair p JOIN generate_series(5, 14) g ON g = p.id', '5', 'a join');
gives('TRUNCATE pair; SELECT (SELECT count(*) FROM pair), (SELECT count(*) FROM item)', '0|2', 'TRUNCATE: the keys of this table only');

# ---- versions count

my $version = 'SELECT version FROM item WHERE id = 1';
my $before = $pg->sql($version);
$pg->sql(q{UPDATE item SET value = 'other' WHERE id = 1});
$pg->sql(q{UPDATE item SET value = 'kept' WHERE id = 1});
isnt($pg->sql($version), $before, 'changed and changed back is another version');
gives("WITH u AS (UPDATE item SET value = 'late' WHERE id = 1 AND version = $before RETURNING id) SELECT count(*) FROM u", '0',
	'an old version is no longer there');
my $now = $pg->sql($version);
gives("UPDATE item SET value = 'in time' WHERE id = 1 AND version = $now; SELECT value, version <> $now FROM item WHERE id = 1",
	'in time|t', 'the present one is');

my $one = $pg->session;
my $two = $pg->session;
my $pid = $one->pid;
$one->start('UPDATE item SET value = value || pg_sleep(2)::text WHERE id = 1');
Zaris::Process::wait_until('the first session has read', sub {
	$pg->sql("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND wait_event = 'PgSleep'") eq '1';
}, 20);
is($two->run(q{UPDATE item SET value = 'second' WHERE id = 1})->{sqlstate}, '00000', 'two sessions: the second writes');
is($one->finish(20)->{sqlstate}, '40001', '... and the first is told');
gives('SELECT value FROM item WHERE id = 1', 'second', '... and has overwritten nothing');

$pg->sql('INSERT INTO counter VALUES (1, 0)');
$pg->pgbench("UPDATE counter SET n = n + 1 WHERE id = 1;\n", clients => 4, transactions => 50, tries => 10000);
gives('SELECT n FROM counter', '200', 'four sessions count to 200 together');

# ---- expiry

$pg->sql(q{INSERT INTO item (id, value, expires_at) VALUES (50, 'brief', clock_timestamp() + '1500ms'), (51, 'long', '2100-01-01 00:00:00+00')});
gives('SELECT id, expires_at > now() FROM item WHERE id >= 50 ORDER BY id', "50|t\n51|t", 'expires_at');
sleep 1.7;
gives('SELECT id FROM item WHERE id >= 50', '51', 'a record that expired is no row');
gives('SELECT count(*) FROM item WHERE id = 50', '0', '... by its key neither');
gives(q{INSERT INTO item (id, value) VALUES (50, 'new') RETURNING id}, '50', '... and its key is free');

# ---- limits

$pg->sql(q{INSERT INTO long VALUES (repeat('x', 505), 'fits')});
gives(q{SELECT value FROM long WHERE name = repeat('x', 505)}, 'fits', 'a key of 510 bytes');
$pg->fails_with('54000', q{INSERT INTO long VALUES (repeat('x', 506), 'does not')}, 'a longer key');
gives(q{INSERT INTO item (id, value) VALUES (60, repeat('v', 5000000)); SELECT length(value) FROM item WHERE id = 60}, '5000000', 'a large value');

# ---- who may

$pg->sql('CREATE ROLE ann LOGIN; CREATE ROLE ben LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER zaris_fdw TO ann;
	GRANT USAGE ON FOREIGN SERVER local TO ann; GRANT SELECT, INSERT ON item TO ann');
my $ann = $pg->session(user => 'ann');
is($ann->run('SELECT value FROM item WHERE id = 1')->{out}, 'second', 'a user needs no mapping and no password to read');
is($ann->run(q{INSERT INTO item (id, value) VALUES (70, 'by ann')})->{sqlstate}, '00000', '... or to write');
is($ann->run('DELETE FROM item')->{sqlstate}, '42501', 'the rights on the table hold');
is($ann->run('CREATE SERVER mine FOREIGN DATA WRAPPER zaris_fdw')->{sqlstate}, '42501', 'to make an embedded store is a privilege');
is($ann->run(q{SELECT zaris_drop_store('main')})->{sqlstate}, '42501', '... and to remove one');
$pg->sql('GRANT pg_write_server_files TO ann');
is($ann->run('CREATE SERVER mine FOREIGN DATA WRAPPER zaris_fdw')->{sqlstate}, '00000', '... of pg_write_server_files');
$ann->close;

# ---- each database has its own

$pg->sql('CREATE DATABASE other');
my $other = $pg->session(dbname => 'other');
is($other->run(q{CREATE EXTENSION zaris_fdw; CREATE SERVER local FOREIGN DATA WRAPPER zaris_fdw;
	CREATE FOREIGN TABLE item (id int, value text) SERVER local OPTIONS (key 'item:<id>'); SELECT count(*) FROM item})->{out},
	'0', 'a store of the same name in another database is another one');
$other->close;

# ---- removing one

$pg->server('scratch', url => 'zaris://inproc/scratch');
$pg->table('rubbish', 'id int, value text', key => 'r:<id>');
$pg->fails_with('42704', q{SELECT zaris_drop_store('nowhere')}, 'zaris_drop_store: there is none');
is($two->run(q{INSERT INTO rubbish VALUES (1, 'x')})->{sqlstate}, '00000', 'a store is in use');
$pg->fails_with('55006', q{SELECT zaris_drop_store('scratch')}, '... and is not removed from under a session');
is($two->run('SELECT value FROM rubbish')->{out}, 'x', '... which has lost nothing');
is($two->run(q{SELECT zaris_drop_store('scratch')})->{sqlstate}, '00000', 'its own user removes it');
is($two->run('SELECT count(*) FROM rubbish')->{out}, '0', '... and finds a new one');

# ---- writers stand in line

# A writer that is stopped while it holds the lock: an admin can look before and after, so no moment is guessed.
sub held_by
{
	my ($writer) = @_;
	my $look = $pg->session;
	$look->start("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 23 AND granted AND pid = $writer");
	my $until = time + 3;
	sleep 0.02 until $look->is_done || time > $until;
	kill 'CONT', $writer unless $look->is_done;    # it was stopped within PostgreSQL's lock table
	return $look->finish(20)->{out} eq '1';
}

my $writer = $one->pid;
$one->start(q{COPY pair (id, a, b) FROM PROGRAM 'seq 1 400000 | sed "s/.*/&\t&\t&/"'});
my $stopped = 0;
for (1 .. 200)
{
	kill 'STOP', $writer;
	$stopped = held_by($writer);
	last if $stopped;
	kill 'CONT', $writer;
	sleep 0.003;
}
ok($stopped, 'a writer stopped with the lock in its hand');
my $result = $two->run(q{SET statement_timeout = '500ms'; UPDATE item SET value = 'waits' WHERE id = 1}, 20);
is($result->{sqlstate}, '57014', 'a writer that waits for it hears statement_timeout');
cmp_ok($result->{seconds}, '<', 5, '... at once');
$two->run('SET statement_timeout = 0');
is($two->run('SELECT value FROM item WHERE id = 1', 20)->{out}, 'second', 'a reader waits for nobody');

# ---- a crash in the middle of a COPY

kill 'CONT', $writer;
Zaris::Process::wait_until('the COPY is on its way', sub { $pg->sql('SELECT count(*) FROM pair WHERE id = 6000') eq '1' }, 60);
kill 'KILL', $writer;
$one->finish(30);
Zaris::Process::wait_until('the server is back', sub { $pg->try('SELECT 1')->{sqlstate} eq '00000' && !kill(0, $writer) }, 60);
my ($n, $whole) = split /\|/, $pg->sql('SELECT count(*), count(*) FILTER (WHERE a = id::text AND b = a) FROM pair');
cmp_ok($n, '>=', 6000, 'after a crash: what was answered is there');
cmp_ok($n, '<', 400000, '... the COPY had not ended');
is($whole, $n, '... and no record is half');
gives('SELECT value FROM item WHERE id = 1', 'second', '... what was there before is there');
gives(q{UPDATE item SET value = 'after' WHERE id = 1 RETURNING value}, 'after', '... and the store takes writes');

done_testing();
