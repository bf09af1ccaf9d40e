# Writing: every way in which a statement writes, what it refuses, and what happens when somebody else writes too.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Time::HiRes qw(sleep time);
use Zaris::Cluster;
use Zaris::FakeNode;
use Zaris::Pg;
use Zaris::Process;
use Zaris::Single;

my $cluster = Zaris::Cluster->launch(replicas => 0);
my $pg = Zaris::Pg->new;
$cluster->wait_until_up;
$pg->server('kv', url => $cluster->url);
$pg->table('item', 'id int, data text, version bigint, expires_at timestamptz', key => 'item:<id>');
$pg->table(
	'person', "id int, name text, email text OPTIONS (field 'mail'), n int, version bigint, expires_at timestamptz",
	key => 'person:<id>',
	layout => 'hash');
$pg->table('pair', 'a text, b text, data text', key => 'pair:<a>:<b>');
$pg->table('name', 'key text, data text', key => 'name:<key>');

my $session = $pg->session;
my $other = $pg->session;
$session->run('\set QUIET off');

# A statement's rows and command tag.
sub says
{
	my ($sql, $expected, $name) = @_;
	my $result = $session->run($sql);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($result->{out}, $expected, $name // $sql) or diag $result->{stderr};
	return $result;
}

sub fails
{
	my ($sqlstate, $sql, $pattern, $name) = @_;
	my $result = $session->run($sql);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($result->{sqlstate}, $sqlstate, $name // $sql) or diag $result->{stderr};
	like("$result->{message}\n$result->{detail}\n$result->{hint}", $pattern, '... and it says what') if $pattern;
	return $result;
}

sub stored { return $cluster->command('GET', $_[0]) }
sub hash { return { @{ $cluster->command('HGETALL', $_[0]) } } }

# ---- INSERT

says("INSERT INTO item VALUES (1, 'one')", 'INSERT 0 1');
is(stored('item:1'), 'one', 'what was inserted is stored');
says("INSERT INTO item (id, data) SELECT i, 'v' || i FROM generate_series(2, 5) i", 'INSERT 0 4');
my $result = fails('23505', "INSERT INTO item VALUES (7, 'x'), (1, 'new')", qr/^Key/m);
is($result->{message}, 'duplicate key value violates unique constraint "item_pkey"', 'a duplicate in PostgreSQL\'s words');
is($result->{detail}, 'Key (id)=(1) already exists.', '... and its detail');
like($result->{stderr}, qr/^CONSTRAINT NAME: +item_pkey/m, '... and its constraint');
like($result->{stderr}, qr/^TABLE NAME: +item/m, '... and its table');
is(stored('item:1'), 'one', '... and nothing is overwritten');
is(stored('item:7'), 'x', 'what a failed statement had sent stays (write_mode immediate)');
fails('23505', "INSERT INTO pair VALUES ('x', 'y', '1'), ('x', 'y', '2')", qr/Key \(a, b\)=\(x, y\) already exists/,
	'a key twice in one statement');
is(stored('pair:x:y'), '1', '... the first is stored');

says("INSERT INTO item VALUES (1, 'new'), (8, 'eight') ON CONFLICT DO NOTHING", 'INSERT 0 1', 'ON CONFLICT DO NOTHING counts');
says("INSERT INTO item VALUES (9, 'a'), (9, 'b') ON CONFLICT DO NOTHING", 'INSERT 0 1', '... also a key twice');
is(stored('item:9'), 'a', '... of which the first wins');
says("INSERT INTO item VALUES (1, 'new'), (10, 'ten') ON CONFLICT DO NOTHING RETURNING id", "10\nINSERT 0 1",
	'... and returns what was inserted');
fails('42P10', "INSERT INTO item VALUES (1, 'new') ON CONFLICT (id) DO UPDATE SET data = 'x'", undef,
	'ON CONFLICT DO UPDATE is refused');

says("INSERT INTO item VALUES (11, 'content') RETURNING *", "11|content|" . version('content') . "|\nINSERT 0 1",
	'RETURNING shows the new version');
is($pg->sql('SELECT version FROM item WHERE id = 11'), version('content'), '... which is the one that is read');
my $version = $pg->sql("INSERT INTO person VALUES (1, 'Ann', NULL, 3) RETURNING version");
is($pg->sql('SELECT version FROM person WHERE id = 1'), $version, 'the version of a hash likewise');
is_deeply(hash('person:1'), { name => 'Ann', n => 3 }, 'a hash has the fields that are not NULL');

fails('23502', "INSERT INTO item VALUES (NULL, 'x')", qr/"id"/, 'a NULL key');
fails('23502', 'INSERT INTO item VALUES (20, NULL)',
	qr/^null value in column "data" of relation "item" violates not-null constraint$/m, 'a NULL value');
fails('23502', 'INSERT INTO person VALUES (20)', qr/no field that is not null/, 'a hash without fields');
fails('22023', "INSERT INTO pair VALUES ('a:b', 'c', 'x')", qr/stands for other values/, 'a key that would be read otherwise');
fails('428C9', "INSERT INTO item VALUES (20, 'x', 5)", qr/version/, 'a version cannot be inserted');
fails('22008', "INSERT INTO item VALUES (20, 'x', NULL, now() - interval '1 s')", qr/past/, 'an expiry in the past');
fails('22008', "INSERT INTO item VALUES (20, 'x', NULL, 'infinity')", qr/infinite/, 'an infinite expiry');
ok(!defined stored('item:20'), 'nothing of these was written');
$cluster->command('HSET', 'item:21', 'a', 1);
fails('42804', "INSERT INTO item VALUES (21, 'x')", undef, 'a key of another kind');

says("INSERT INTO item VALUES (30, 'x', NULL, now() + interval '100 s') RETURNING expires_at - now() <= interval '100 s'",
	"t\nINSERT 0 1", 'an expiry');
cmp_ok($cluster->command('PTTL', 'item:30'), '>', 90_000, '... is the key\'s');
$pg->table('short', 'id int, data text, expires_at timestamptz', key => 'short:<id>', ttl => '90s');
says("INSERT INTO short VALUES (1, 'x') RETURNING expires_at BETWEEN now() + interval '80 s' AND now() + interval '91 s'",
	"t\nINSERT 0 1", 'the table\'s ttl');
cmp_ok($cluster->command('PTTL', 'short:1'), '>', 80_000, '... is the key\'s');
says("INSERT INTO short VALUES (2, 'x', now() + interval '10 s')", 'INSERT 0 1');
cmp_ok($cluster->command('PTTL', 'short:2'), '<=', 10_000, '... unless the row says otherwise');

$pg->table('bin', 'id int, data bytea', key => 'bin:<id>');
says("INSERT INTO bin VALUES (1, '\\x00ff0d0a00'), (2, '')", 'INSERT 0 2');
is(stored('bin:1'), "\x00\xff\r\n\x00", 'bytes are stored as they are');
is(stored('bin:2'), '', 'empty is not NULL');
is($pg->sql('SELECT data FROM bin WHERE id = 1'), '\x00ff0d0a00', '... and read');
my $counts = $cluster->counted(
	sub { fails('54000', "INSERT INTO item VALUES (31, repeat('x', 512 * 1024 * 1024 + 1))", undef, 'more than 512 MB') });
is_deeply([ grep { /set|eval/ } keys %$counts ], [], '... is refused without sending');

# ---- many rows

$counts = $cluster->counted(
	sub { says("INSERT INTO item SELECT i, 'row ' || i FROM generate_series(1001, 11000) i", 'INSERT 0 10000') });
is($counts->{set}, 10000, 'an INSERT is one SET NX each');
is($pg->sql("SELECT count(*), sum(length(data)) FROM item WHERE id > 1000"), "10000|" . sum_of_lengths(), 'all are there');
says('UPDATE item SET data = data || \'!\' WHERE id > 1000', 'UPDATE 10000');
is($pg->sql("SELECT count(*), sum(length(data)) FROM item WHERE id > 1000 AND data LIKE '%!'"),
	"10000|" . (sum_of_lengths() + 10000), 'all are updated');
says('DELETE FROM item WHERE id > 1000', 'DELETE 10000');
is($pg->sql('SELECT count(*) FROM item WHERE id > 1000'), 0, 'all are deleted');
fails('23505', "INSERT INTO item SELECT i % 3000 + 100000, 'x' FROM generate_series(0, 5000) i", qr/Key \(id\)=\(100000\)/,
	'a duplicate in the middle of many');
says("INSERT INTO item SELECT i + 100000, 'x' FROM generate_series(0, 5000) i ON CONFLICT DO NOTHING", 'INSERT 0 '
	  . (5001 - $pg->sql('SELECT count(*) FROM item WHERE id >= 100000')), 'DO NOTHING for many');
says('DELETE FROM item WHERE id >= 100000', 'DELETE 5001');

my $rows = join('', map { "$_\tcopied $_\n" } 20001 .. 30000);
says("COPY item (id, data) FROM STDIN;\n$rows\\.\n", 'COPY 10000', 'COPY');
is($pg->sql('SELECT count(*) FROM item WHERE id > 20000'), 10000, '... wrote all');
fails('23505', "COPY item (id, data) FROM STDIN;\n1\tagain\n\\.\n", undef, 'COPY of a duplicate');
says('TRUNCATE item', 'TRUNCATE TABLE');
is($pg->sql('SELECT count(*) FROM item'), 0, 'TRUNCATE deletes all rows');
is_deeply(hash('item:21'), { a => 1 }, '... but no keys of another kind');
is(stored('pair:x:y'), '1', '... nor of other tables');
$cluster->command('DEL', 'item:21');
$cluster->command('SET', 'item:007', 'x');
says('TRUNCATE item', 'TRUNCATE TABLE');
is(stored('item:007'), 'x', '... nor keys that are no rows');

# ---- UPDATE and DELETE

says("INSERT INTO item SELECT i, 'v' || i FROM generate_series(1, 10) i", 'INSERT 0 10');
says("UPDATE item SET data = data || '+' WHERE id IN (1, 2) RETURNING id, data, version = zaris_version(data::bytea)",
	"1|v1+|t\n2|v2+|t\nUPDATE 2", 'UPDATE with RETURNING');
says("DELETE FROM item WHERE id IN (3, 4) RETURNING id, data, version = zaris_version(data::bytea)",
	"3|v3|t\n4|v4|t\nDELETE 2", 'DELETE with RETURNING');
says("DELETE FROM item WHERE data = 'v5'", 'DELETE 1', 'DELETE by value');
ok(!defined stored('item:5'), '... deletes');
says("UPDATE item SET data = data || '-' WHERE data = 'nothing'", 'UPDATE 0');
fails('23502', "UPDATE item SET data = NULLIF(data, 'v6') WHERE id = 6", qr/column "data" of relation "item"/);
fails('428C9', 'UPDATE item SET version = version + 1 WHERE id = 6', qr/version/, 'a version cannot be set');

says("UPDATE item SET expires_at = now() + interval '100 s' WHERE id = 6", 'UPDATE 1', 'only the expiry');
cmp_ok($cluster->command('PTTL', 'item:6'), '>', 90_000, '... is set');
is(stored('item:6'), 'v6', '... and the value stays');
says("UPDATE item SET data = data || '!' WHERE id = 6", 'UPDATE 1');
cmp_ok($cluster->command('PTTL', 'item:6'), '>', 90_000, 'an expiry survives an UPDATE');
says("UPDATE item SET data = 'direct' WHERE id = 6", 'UPDATE 1');
cmp_ok($cluster->command('PTTL', 'item:6'), '>', 90_000, '... a direct one too');
says('UPDATE item SET expires_at = NULL WHERE id = 6', 'UPDATE 1');
is($cluster->command('PTTL', 'item:6'), -1, '... until it is cleared');
fails('22008', "UPDATE item SET expires_at = '2001-01-01' WHERE id = 6", qr/past/);

$cluster->command('HSET', 'person:1', 'unknown', 'kept');
says("UPDATE person SET n = n + 1, name = NULL WHERE id = 1 RETURNING id, name, email, n", "1|||4\nUPDATE 1");
is_deeply(hash('person:1'), { n => 4, unknown => 'kept' }, 'NULL removes a field, others stay');
says("UPDATE person SET email = 'a\@b' WHERE n = 4", 'UPDATE 1');
is_deeply(hash('person:1'), { n => 4, mail => 'a@b', unknown => 'kept' }, 'a field by its own name');
says("UPDATE person SET expires_at = now() + interval '100 s' WHERE n = 4", 'UPDATE 1', 'only the expiry of a hash');
cmp_ok($cluster->command('PTTL', 'person:1'), '>', 90_000, '... is set');
says("INSERT INTO person VALUES (2, 'Bob')", 'INSERT 0 1');
fails('23502', "UPDATE person SET name = NULLIF(name, 'Bob') WHERE id = 2", qr/no field that is not null/, 'the last field');
fails('23502', 'UPDATE person SET name = NULL WHERE id = 2', qr/no field that is not null/, '... by a constant');
fails('23502', "PREPARE p AS UPDATE person SET name = \$1 WHERE id = 2;\nSET plan_cache_mode = force_generic_plan;\nEXECUTE p (NULL)",
	qr/no field that is not null/, '... by a parameter');
$session->run('RESET plan_cache_mode');
is_deeply(hash('person:2'), { name => 'Bob' }, '... stays');

# ---- somebody else writes

# Read, then wait in the SET list, then write: meanwhile the test acts.
sub while_it_waits
{
	my ($sql, $code) = @_;
	$other->start($sql);
	sleep(0.3);
	$code->();
	return $other->finish;
}
my $slow = "(SELECT 'mine' FROM pg_sleep(0.8) WHERE id > 0)";
$result = while_it_waits("UPDATE item SET data = $slow WHERE id = 7", sub { $cluster->command('SET', 'item:7', 'theirs') });
is($result->{sqlstate}, '40001', 'an UPDATE of what was changed meanwhile') or diag $result->{stderr};
like($result->{message}, qr/item:7/, '... names the key');
is(stored('item:7'), 'theirs', '... and does not overwrite it');
$result = while_it_waits("UPDATE item SET data = $slow WHERE id = 7", sub { $cluster->command('DEL', 'item:7') });
is($result->{sqlstate}, '40001', 'an UPDATE of what was deleted meanwhile');
ok(!defined stored('item:7'), '... does not create it');
$result = while_it_waits("DELETE FROM item WHERE id = 8 AND $slow = 'mine'", sub { $cluster->command('SET', 'item:8', 'theirs') });
is($result->{sqlstate}, '40001', 'a DELETE of what was changed meanwhile') or diag $result->{stderr};
is(stored('item:8'), 'theirs', '... deletes nothing');
$result = while_it_waits("UPDATE item SET data = $slow WHERE id = 8", sub { $cluster->command('SET', 'item:8', 'theirs') });
is($result->{sqlstate}, '00000', 'the same content is the same version');
$result = while_it_waits("UPDATE item SET id = 108, data = $slow WHERE id = 8", sub { $cluster->command('SET', 'item:8', 'changed') });
is($result->{sqlstate}, '40001', 'a key update of what was changed meanwhile');
ok(!defined stored('item:108') && stored('item:8') eq 'changed', '... leaves everything as it was');

$cluster->command('HSET', 'person:100', 'n', 0);
$pg->pgbench("UPDATE person SET n = n + 1 WHERE id = 100;\n", clients => 4, transactions => 200, tries => 100_000);
is(hash('person:100')->{n}, 800, '4 sessions x 200 increments');

# ---- without reading first

sub direct
{
	my ($sql, $expected, $name, $prepare) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $calls = $cluster->counted(sub { says($sql, $expected, $name // $sql) });
	is(($calls->{evalsha} // 0) + ($calls->{eval} // 0) . ' ' . ($calls->{hmget} // 0) . ' ' . ($calls->{scan} // 0), '1 0 0', '... by one script');
	return $calls;
}
$cluster->command('SET', 'item:50', 'old');
my $calls = direct("UPDATE item SET data = 'new' WHERE id = 50", 'UPDATE 1');
ok(!$calls->{get}, '... and no GET');
is(stored('item:50'), 'new', '... which writes');
direct("UPDATE item SET data = 'new' WHERE id = 51", 'UPDATE 0');
ok(!defined stored('item:51'), 'an UPDATE of nothing creates nothing');
direct("UPDATE item SET data = 'newer' WHERE id = 50 AND version = " . version('new'), 'UPDATE 1');
direct("UPDATE item SET data = 'newest' WHERE id = 50 AND version = " . version('new'), 'UPDATE 0', 'another version is no row');
direct("UPDATE item SET data = 'newest' WHERE id = 50 AND version = 5", 'UPDATE 0');
direct("DELETE FROM item WHERE version = " . version('new') . ' AND id = 50', 'DELETE 0');
is(stored('item:50'), 'newer', '... and nothing happens');
direct("DELETE FROM item WHERE version = " . version('newer') . ' AND id = 50', 'DELETE 1');
direct('DELETE FROM item WHERE id = 50', 'DELETE 0');
$cluster->command('SADD', 'item:52', 'a');
direct("UPDATE item SET data = 'x' WHERE id = 52", 'UPDATE 0', 'a key of another kind is no row');
direct('DELETE FROM item WHERE id = 52', 'DELETE 0');
is($cluster->command('TYPE', 'item:52'), 'set', '... and stays');
says('DELETE FROM item WHERE id = ANY (ARRAY[1, 2, 2, 1, 51, NULL])', 'DELETE 2', 'several keys, each once');
direct("UPDATE person SET name = 'Eve', n = NULL, expires_at = now() + interval '50 s' WHERE id = 2", 'UPDATE 1');
is_deeply(hash('person:2'), { name => 'Eve' }, '... writes fields');
cmp_ok($cluster->command('PTTL', 'person:2'), '>', 40_000, '... and the expiry');
$session->run('PREPARE u(text, int) AS UPDATE person SET name = $1 WHERE id = $2; SET plan_cache_mode = force_generic_plan');
direct("EXECUTE u ('Zoe', 2)", 'UPDATE 1', 'a generic plan');
$session->run('RESET plan_cache_mode');
is(hash('person:2')->{name}, 'Zoe', '... writes');
says('UPDATE item SET data = NULL WHERE id = 51', 'UPDATE 0', 'NULL for no row is no error');
$session->run('PREPARE s(text, int) AS UPDATE item SET data = $1 WHERE id = $2; SET plan_cache_mode = force_generic_plan');
says('EXECUTE s (NULL, 51)', 'UPDATE 0', '... nor in a generic plan');
fails('23502', 'EXECUTE s (NULL, 6)', qr/column "data" of relation "item"/, '... but for a row it is');
says('EXECUTE s (\'x\', NULL)', 'UPDATE 0', 'a NULL key');
$session->run('RESET plan_cache_mode');
like($pg->sql("EXPLAIN UPDATE item SET data = 'x' WHERE id = 1 AND version = 1"), qr/Foreign Update.*Put IfMatchVersion/s,
	'EXPLAIN says so');
for my $not (
	"UPDATE item SET data = data || 'x' WHERE id = 1",
	"UPDATE item SET data = 'x' WHERE id = 1 AND data = 'y'",
	"UPDATE item SET data = 'x' WHERE id = 1 RETURNING id",
	"UPDATE item SET data = random() WHERE id = 1",
	"UPDATE item SET data = 'x' WHERE id > 1",
	"UPDATE item SET id = 5 WHERE id = 1",
	"DELETE FROM item WHERE id = 1 AND version > 5",
	"DELETE FROM item USING person WHERE item.id = 1 AND person.id = 1")
{
	unlike($pg->sql("EXPLAIN $not"), qr/Foreign (Update|Delete) on/, "not direct: $not");
}

$cluster->command('HSET', 'person:60', 'name', 'old');
says("UPDATE person SET (name, email) = (SELECT 'a', 'b' || person.id) WHERE id = 60", 'UPDATE 1', 'a row of new values');
is_deeply(hash('person:60'), { name => 'a', mail => 'b60' }, '... is written');
direct("UPDATE person SET name = (SELECT relname FROM pg_class WHERE relname = 'pg_class') WHERE id = 60", 'UPDATE 1',
	'a subquery that is run once');
is(hash('person:60')->{name}, 'pg_class', '... is written');
says("WITH w AS (UPDATE person SET name = 'by with' WHERE id = 60) SELECT 'done'", 'done', 'in WITH');
is(hash('person:60')->{name}, 'by with', '... is written');

# ---- UPDATE of key columns

says("INSERT INTO name SELECT 'k' || i, 'v' || i FROM generate_series(1, 500) i", 'INSERT 0 500');
says("UPDATE name SET key = key || 'x'", 'UPDATE 500', 'each row moves once');
is($pg->sql("SELECT count(*), count(*) FILTER (WHERE key ~ '^k[0-9]+x\$' AND key = 'k' || substr(data, 2) || 'x') FROM name"),
	'500|500', '... and all are there under their new keys');
fails('23505', "UPDATE name SET key = 'k2x' WHERE key = 'k1x'", qr/Key \(key\)=\(k2x\) already exists/, 'a key that is taken');
is(stored('name:k1x') . stored('name:k2x'), 'v1v2', '... both stay');
$cluster->command('SET', 'name:k7xy', 'taken');
fails('23505', "UPDATE name SET key = key || 'y' WHERE key = ANY (ARRAY(SELECT 'k' || i || 'x' FROM generate_series(1, 20) i))",
	qr/\(k7xy\)/, 'one of several keys is taken');
is($pg->sql("SELECT string_agg(key, ' ') FROM name WHERE key LIKE '%y'"), 'k7xy', '... all moves are undone');
$cluster->command('DEL', 'name:k7xy');
fails('23505', "UPDATE name SET key = 'same'", qr/\(same\)/, 'all to one key');
is($pg->sql('SELECT count(*) FROM name'), 500, '... none is lost, none is left over');
says("UPDATE name SET key = key, data = data || '!' WHERE key IN ('k1x', 'k2x')", 'UPDATE 2', 'a key that stays');
is(stored('name:k1x'), 'v1!', '... is an ordinary UPDATE');
$cluster->command('HSET', 'person:3', 'name', 'Cy', 'n', 1, 'unknown', 'kept');
$cluster->command('PEXPIRE', 'person:3', 100_000);
says('UPDATE person SET id = 4, n = NULL, email = \'c@d\' WHERE id = 3 RETURNING id, name, email, n', "4|Cy|c\@d|\nUPDATE 1",
	'a hash moves');
is_deeply(hash('person:4'), { name => 'Cy', mail => 'c@d', unknown => 'kept' }, '... with all its fields');
cmp_ok($cluster->command('PTTL', 'person:4'), '>', 90_000, '... and its expiry');
is($cluster->command('EXISTS', 'person:3'), 0, '... and is gone under the old key');
says('UPDATE person SET id = 5, expires_at = NULL WHERE id = 4', 'UPDATE 1', 'a move that clears the expiry');
is($cluster->command('PTTL', 'person:5'), -1, '... clears it');
fails('22023', "UPDATE pair SET a = 'x:y' WHERE a = 'x'", qr/stands for other values/);
fails('23502', 'UPDATE pair SET a = NULL WHERE a = \'x\'', qr/"a"/);
is(stored('pair:x:y'), '1', 'what is refused changes nothing');

# ---- a statement and its own writes

says('TRUNCATE name', 'TRUNCATE TABLE');
says("INSERT INTO name SELECT 'k' || i, i::text FROM generate_series(1, 300) i", 'INSERT 0 300');
$pg->sql("ALTER FOREIGN TABLE name OPTIONS (ADD fetch_size '10')");
says("INSERT INTO name SELECT key || '+', data FROM name", 'INSERT 0 300', 'a table into itself');
is($pg->sql('SELECT count(*) FROM name'), 600, '... once');
$pg->sql("CREATE TABLE local (key text, add text); INSERT INTO local VALUES ('k1', 'a'), ('k1', 'b'), ('k2', 'c'), ('zz', 'd')");
$session->run('SET enable_nestloop = off');
says('UPDATE name SET data = data || l.add FROM local l WHERE name.key = l.key', 'UPDATE 2', 'several join rows for one row');
like(stored('name:k1'), qr/^1[ab]$/, '... of which the first counts');
says('DELETE FROM name USING local l WHERE name.key = l.key', 'DELETE 2', 'a joined DELETE');
$session->run('RESET enable_nestloop');
says("WITH d AS (DELETE FROM name USING local l WHERE name.key = l.key || '+' RETURNING name.key, l.add) SELECT key, add IS NOT NULL FROM d ORDER BY key",
	"k1+|t\nk2+|t", '... with RETURNING');
says("WITH gone AS (DELETE FROM name WHERE key IN ('k3', 'k4') RETURNING *) INSERT INTO pair SELECT 'moved', key, data FROM gone",
	'INSERT 0 2', 'rows move between tables');
says("WITH a AS (UPDATE name SET data = 'a' WHERE key = 'k5' RETURNING 1), b AS (UPDATE name SET data = data || 'b' WHERE key = 'k5' RETURNING 1) SELECT count(*) FROM a, b",
	'0', 'a row is updated once a statement');

# ---- constraints, views, triggers

$pg->sql(<<'SQL');
CREATE FOREIGN TABLE bounded (id int NOT NULL, n int NOT NULL, note text,
	version bigint, CONSTRAINT small CHECK (n < 100)) SERVER kv OPTIONS (key 'bounded:<id>', layout 'hash');
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.note := TG_OP || ' ' || coalesce(NEW.note, '-'); RETURN NEW; END $$;
CREATE TABLE log (op text, old text, new text);
CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log VALUES (TG_OP, OLD::text, NEW::text);
	IF TG_OP = 'INSERT' AND NEW.version IS DISTINCT FROM (SELECT version FROM bounded WHERE id = NEW.id) THEN RAISE 'not there'; END IF;
	RETURN NULL;
END $$;
CREATE VIEW few AS SELECT id, n FROM bounded WHERE n < 10 WITH CHECK OPTION;
SQL
says('INSERT INTO bounded (id, n) VALUES (1, 4)', 'INSERT 0 1');
fails('23514', 'INSERT INTO bounded (id, n) VALUES (2, 100)', qr/small/, 'a CHECK constraint');
fails('23514', 'UPDATE bounded SET n = 100 WHERE id = 1', qr/small/, '... of an UPDATE');
fails('23502', 'UPDATE bounded SET n = NULL WHERE id = 1', qr/"n"/, 'NOT NULL');
fails('44000', 'INSERT INTO few VALUES (3, 50)', undef, 'WITH CHECK OPTION');
fails('44000', 'UPDATE few SET n = 50 WHERE id = 1', undef, '... of an UPDATE');
$pg->sql(<<'SQL');
CREATE TRIGGER a BEFORE INSERT OR UPDATE ON bounded FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER b AFTER INSERT OR UPDATE OR DELETE ON bounded FOR EACH ROW EXECUTE FUNCTION log();
SQL
says('INSERT INTO bounded (id, n) VALUES (4, 1), (5, 2)', 'INSERT 0 2', 'row triggers');
says('UPDATE bounded SET n = 3 WHERE id = 4', 'UPDATE 1');
says('DELETE FROM bounded WHERE id = 4', 'DELETE 1');
is_deeply(hash('bounded:5'), { n => 2, note => 'INSERT -' }, 'what a BEFORE trigger changes is stored');
like($pg->sql('SELECT * FROM log ORDER BY op'),
	qr/\ADELETE\|\(4,3,"UPDATE INSERT -",-?\d+\)\|\nINSERT\|\|\(4,1,"INSERT -",-?\d+\)\nINSERT\|\|\(5,2,"INSERT -",-?\d+\)\nUPDATE\|\(4,1,"INSERT -",-?\d+\)\|\(4,3,"UPDATE INSERT -",-?\d+\)\z/,
	'AFTER triggers see old and new rows');

$pg->sql(<<'SQL');
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO log VALUES ('see', TG_OP, (SELECT count(*) FROM seen)); RETURN NULL; END $$;
CREATE FOREIGN TABLE seen (id int, data text) SERVER kv OPTIONS (key 'seen:<id>');
CREATE TRIGGER see AFTER INSERT OR DELETE ON seen FOR EACH STATEMENT EXECUTE FUNCTION see();
SQL
says("INSERT INTO seen SELECT i, 'x' FROM generate_series(1, 50) i", 'INSERT 0 50', 'a statement trigger');
says('DELETE FROM seen WHERE id > 10', 'DELETE 40');
is($pg->sql("SELECT old, new FROM log WHERE op = 'see'"), "INSERT|50\nDELETE|10", '... sees all that was written');

# ---- inheritance: tables with different columns and keys under one parent

$pg->sql(<<'SQL');
CREATE TABLE parent (id int, data text);
CREATE FOREIGN TABLE child_a (data text, extra text, id int) SERVER kv OPTIONS (key 'child_a:<id>', layout 'hash');
CREATE FOREIGN TABLE child_b (id int, data text) SERVER kv OPTIONS (key 'child_b:<id>', layout 'hash');
ALTER FOREIGN TABLE child_a INHERIT parent;
ALTER FOREIGN TABLE child_b INHERIT parent;
INSERT INTO parent VALUES (1, 'p'), (2, 'p');
INSERT INTO child_a (id, data, extra) VALUES (3, 'a', 'e'), (4, 'a', 'e');
INSERT INTO child_b (id, data) VALUES (5, 'b'), (6, 'b');
SQL
says("UPDATE parent SET data = data || '!' WHERE id > 1", 'UPDATE 5', 'an UPDATE of a tree');
says('UPDATE parent SET id = id + 10 WHERE id IN (2, 4, 6)', 'UPDATE 3', '... of its keys');
says("UPDATE parent SET data = 'direct' WHERE id = 3", 'UPDATE 1', '... of one row');
says('DELETE FROM parent WHERE id IN (1, 5)', 'DELETE 2');
is($pg->sql('SELECT tableoid::regclass, * FROM parent ORDER BY id'), "child_a|3|direct\nparent|12|p!\nchild_a|14|a!\nchild_b|16|b!",
	'... each row once, in its table');
is_deeply(hash('child_a:14'), { data => 'a!', extra => 'e' }, '... with what only its own table has');

# ---- types: what is written is read again, whatever the session's settings

$pg->sql(<<'SQL');
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE FOREIGN TABLE wide (gone int, j jsonb, k3 uuid, k1 mood, k2 timestamptz, a int[], n numeric, k4 bytea, k5 positive,
	ts timestamp, b boolean, c char(5), v varchar(10), nm name, i interval, f float8)
	SERVER kv OPTIONS (key 'w:<k1>:<k2>|<k3>/<k5>/<k4>', layout 'hash');
ALTER FOREIGN TABLE wide DROP COLUMN gone;
ALTER FOREIGN TABLE wide ADD COLUMN late text DEFAULT 'l';
CREATE TABLE local_wide AS SELECT '{"a": [1, null]}'::jsonb AS j, '11111111-2222-3333-4444-555555555555'::uuid AS k3, 'ok'::mood AS k1,
	'2024-01-01 00:00:00.000001+00'::timestamptz AS k2, '{1,NULL}'::int[] AS a, 1.50 AS n, '\x00ff'::bytea AS k4, 3::positive AS k5,
	'2024-01-01'::timestamp AS ts, true AS b, 'ab'::char(5) AS c, 'ü'::varchar(10) AS v, 'n'::name AS nm, '1 day 2 hours'::interval AS i,
	0.1::float8 + 0.2 AS f, 'l'::text AS late;
SQL
$session->run("SET datestyle = 'German'; SET timezone = 'Asia/Tokyo'; SET intervalstyle = 'iso_8601'; SET extra_float_digits = 0");
says('INSERT INTO wide SELECT * FROM local_wide', 'INSERT 0 1', 'many types');
$session->run('RESET ALL');
is($pg->sql('SELECT count(*) FROM (SELECT * FROM wide INTERSECT SELECT * FROM local_wide) x'), 1, '... come back');
fails('23514', 'UPDATE wide SET k5 = k5 - 3', qr/positive/, 'a domain over a key');
says("UPDATE wide SET k5 = k5 + 1, k4 = '', n = -n RETURNING k5, k4, n", "4|\\x|-1.50\nUPDATE 1", 'keys of many types move');
fails('23505', 'INSERT INTO wide SELECT * FROM wide', qr/Key \(k1, k2, k3, k5, k4\)=\(ok, 2024-01-01/, '... and are named');
says('DELETE FROM wide', 'DELETE 1');

# ---- partitions

$pg->sql(<<'SQL');
CREATE TABLE part (id int, region text, data text) PARTITION BY LIST (region);
CREATE FOREIGN TABLE part_a PARTITION OF part FOR VALUES IN ('a') SERVER kv OPTIONS (key 'part:a:<id>', layout 'hash');
CREATE FOREIGN TABLE part_b PARTITION OF part FOR VALUES IN ('b') SERVER kv OPTIONS (key 'part:b:<id>', layout 'hash');
CREATE TABLE part_c PARTITION OF part FOR VALUES IN ('c');
SQL
says("INSERT INTO part SELECT i, chr(97 + i % 3), 'd' || i FROM generate_series(1, 300) i", 'INSERT 0 300', 'routed rows');
is_deeply(hash('part:b:1'), { region => 'b', data => 'd1' }, '... are stored in their partition');
is($pg->sql('SELECT count(*), count(DISTINCT id) FROM part'), '300|300', '... all');
says("INSERT INTO part VALUES (1, 'b', 'x'), (301, 'b', 'y') ON CONFLICT DO NOTHING", 'INSERT 0 1', 'routed, ON CONFLICT');
says("INSERT INTO part VALUES (400, 'a', 'z') RETURNING id, tableoid::regclass", "400|part_a\nINSERT 0 1", 'routed, RETURNING');
says("COPY part FROM STDIN;\n500\ta\tc1\n501\tb\tc2\n502\tc\tc3\n\\.\n", 'COPY 3', 'COPY into partitions');
is($pg->sql('SELECT count(*) FROM part WHERE id >= 500'), 3, '... wrote all');
says("UPDATE part SET data = data || '!' WHERE id IN (1, 2, 3)", 'UPDATE 3', 'UPDATE of several partitions');
says("UPDATE part SET region = 'a' WHERE id = 502", 'UPDATE 1', 'a local row moves into a foreign partition');
is_deeply(hash('part:a:502'), { region => 'a', data => 'c3' }, '... and is stored there');
says("UPDATE part SET region = 'b' WHERE region = 'c'", 'UPDATE 100', 'many move, while the partition is read');
is($pg->sql("SELECT count(*), count(DISTINCT id) FROM part WHERE region = 'b'"), '202|202', '... once');
fails('23514', "UPDATE part SET region = 'b' WHERE id = 502", qr/violates partition constraint/, 'a foreign row cannot leave');
fails('23514', "INSERT INTO part_a VALUES (9, 'b', 'x')", qr/violates partition constraint/, '... nor be inserted wrongly');
says("DELETE FROM part WHERE id > 100", 'DELETE ' . ($pg->sql('SELECT count(*) FROM part WHERE id > 100') || 204));

# ---- read_only

$pg->table('fixed', 'id int, data text', key => 'item:<id>', read_only => 'true');
fails('55000', "INSERT INTO fixed VALUES (1, 'x')", qr/does not allow inserts/);
fails('55000', "UPDATE fixed SET data = 'x' WHERE id = 1", qr/does not allow updates/);
fails('55000', 'DELETE FROM fixed', qr/does not allow deletes/);
fails('55000', 'TRUNCATE fixed', qr/does not allow truncates/);
fails('55000', "COPY fixed FROM STDIN;\n1\tx\n\\.\n", qr/does not allow inserts/);
fails('25006', "BEGIN READ ONLY; INSERT INTO item VALUES (60, 'x')", undef, 'a read-only transaction');
$session->run('ROLLBACK');

# ---- EXPLAIN

like($pg->sql("EXPLAIN (VERBOSE) INSERT INTO item VALUES (60, 'x')"), qr/Put IfAbsent.*Batch Size: 1000/s, 'EXPLAIN of INSERT');
like($pg->sql("EXPLAIN UPDATE item SET data = data || 'x'"), qr/Put IfMatchVersion/, 'EXPLAIN of UPDATE');
like($pg->sql("EXPLAIN UPDATE name SET key = key || 'x'"), qr/Put IfAbsent, Delete IfMatchVersion/, 'EXPLAIN of a key\'s UPDATE');
like($pg->sql('EXPLAIN DELETE FROM item'), qr/Delete IfMatchVersion/, 'EXPLAIN of DELETE');
like($pg->sql("EXPLAIN ANALYZE INSERT INTO item SELECT i, 'x' FROM generate_series(70001, 70010) i"), qr/Writes: 10\b/,
	'EXPLAIN ANALYZE counts');
is($pg->sql('SELECT count(*) FROM item WHERE id > 70000'), 10, '... what it wrote');

# ---- errors leave the session usable, and nothing more is sent

$session->run('SET zaris.disable_retries = on');
$cluster->cli($cluster->owner(Zaris::Resp::slot('item:6')), 'CONFIG', 'SET', 'maxmemory', 1);
fails('53200', "UPDATE item SET data = 'x' WHERE id = 6", qr/OutOfMemory/, 'the raw status of a write');
$cluster->cli($cluster->owner(Zaris::Resp::slot('item:6')), 'CONFIG', 'SET', 'maxmemory', 0);
$session->run('RESET zaris.disable_retries');
fails('22012', "INSERT INTO item SELECT i, (1 / (80500 - i))::text FROM generate_series(80001, 90000) i", undef,
	'an error in the middle of a statement');
sleep(0.2);
cmp_ok($pg->sql('SELECT count(*) FROM item WHERE id > 80000'), '<=', 499, '... ends it there');
says("INSERT INTO item VALUES (99999, 'after')", 'INSERT 0 1', '... and the session goes on');
is($pg->sql(<<'SQL'), '16|4', 'a handler goes on after an error');
CREATE TABLE counted (failed int);
DO $$ DECLARE failed int := 0; BEGIN
	FOR i IN 1 .. 20 LOOP
		BEGIN INSERT INTO item VALUES (i % 4 + 99000, 'x'); EXCEPTION WHEN unique_violation THEN failed := failed + 1; END;
	END LOOP;
	INSERT INTO counted VALUES (failed);
END $$;
SELECT failed, (SELECT count(*) FROM item WHERE id BETWEEN 99000 AND 99003) FROM counted
SQL
$session->run("BEGIN; SAVEPOINT a");
fails('23505', "INSERT INTO item VALUES (99999, 'again')");
says("ROLLBACK TO a; INSERT INTO item VALUES (99998, 'b'); COMMIT", "ROLLBACK\nINSERT 0 1\nCOMMIT", 'savepoints');

# ---- answers that are lost, and moves that fail half-way

my $single = Zaris::Single->new;
my $forward = { forward => $single->port };
my $lost = { forward => $single->port, close => 1, bytes => '' };

# A node whose writes are answered as said, one after the other.
sub scripted
{
	my (%script) = @_;
	my $fake = Zaris::FakeNode->new(
		(map { $_ => $forward } qw(GET TYPE EVAL EVALSHA SET SCAN PEXPIRETIME PTTL HGETALL HMGET)), %script);
	$pg->sql("DROP SERVER IF EXISTS fake CASCADE; CREATE SERVER fake FOREIGN DATA WRAPPER zaris_fdw
		OPTIONS (url '" . $fake->url . "', backoff '10ms');
		CREATE FOREIGN TABLE f (key text, data text, version bigint) SERVER fake OPTIONS (key 'f:<key>')");
	$single->ask('FLUSHALL');
	$single->ask('SET', 'f:a', 'A');
	return $fake;
}

my $fake = scripted(SET => [ $lost, $forward ]);
fails('08007', "INSERT INTO f VALUES ('b', 'B')", undef, 'an INSERT whose answer is lost');
is($single->ask('GET', 'f:b'), 'B', '... had happened');
$fake->stop;
$fake = scripted(SET => [ { close => 1 }, $forward ]);
says("INSERT INTO f VALUES ('b', 'B')", 'INSERT 0 1', 'an INSERT that is lost is sent again');
$fake->stop;
$fake = scripted(EVAL => [ $lost, $forward ]);
fails('08007', "UPDATE f SET data = data || '!'", undef, 'an UPDATE whose answer is lost');
is($single->ask('GET', 'f:a'), 'A!', '... had happened');
$fake->stop;
$fake = scripted(EVAL => [ $lost, $forward ]);
fails('08007', "DELETE FROM f WHERE key = 'a'", undef, 'a direct DELETE whose answer is lost');
$fake->stop;

$fake = scripted(SET => [ ("-LOADING soon\r\n") x 3, $forward ]);
says("INSERT INTO f SELECT 'key' || i, 'value ' || i FROM generate_series(1, 5) i", 'INSERT 0 5', 'rows that are sent again');
is($single->ask('GET', "f:key$_"), "value $_", "... key$_ is whole") for 1 .. 5;
$fake->stop;

$fake = scripted(EVAL => [ ":0\r\n", $forward ]);
$result = fails('40001', "UPDATE f SET key = 'b'", undef, 'a move whose old record was changed');
unlike($result->{stderr}, qr/WARNING/, '... is undone');
is($single->ask('GET', 'f:a') . $single->ask('EXISTS', 'f:b'), 'A0', '... and everything is as it was');
$fake->stop;
$fake = scripted(EVAL => ":0\r\n", EVALSHA => ":0\r\n");
$result = fails('40001', "UPDATE f SET key = 'b'", undef, 'a move that cannot be undone');
like($result->{stderr}, qr/WARNING:.*"f:b"/, '... says what is left');
$fake->stop;
$fake = scripted(EVAL => [ $lost, $forward ]);
$result = fails('08007', "UPDATE f SET key = 'b'", undef, 'a move of which it is unknown whether the old record went');
like($result->{stderr}, qr/WARNING:.*"f:a".*"f:b"/, '... says where it may be');
is($single->ask('GET', 'f:b'), 'A', '... and does not lose it');
$fake->stop;

$session->close;
$other->close;
# ---- what is stored means the same in every session, whatever it has set

$pg->sql('CREATE SCHEMA near; CREATE SCHEMA far; CREATE TABLE near.thing (); CREATE TABLE far.thing ();
	CREATE DOMAIN relation AS regclass; CREATE TYPE couple AS (n int, m regclass)');
$pg->table('setting', 'id int, r regclass, a regclass[], d relation, p couple, x xml', key => 'setting:<id>', layout => 'hash');
$pg->sql("SET search_path = near, public;
	INSERT INTO setting VALUES (1, 'thing', '{thing}', 'thing', ROW(1, 'thing'), 'a<b/>')");
is( $pg->sql("SET search_path = far, public; SET xmloption = document;
	SELECT r::oid = 'near.thing'::regclass, a[1]::oid = 'near.thing'::regclass, d::oid = 'near.thing'::regclass,
		(p).m::oid = 'near.thing'::regclass, x FROM setting"),
	't|t|t|t|a<b/>',
	'names of objects and xml do not depend on search_path and xmloption');

done_testing();

sub version
{
	return $pg->sql("SELECT zaris_version('$_[0]'::bytea)");
}

sub sum_of_lengths
{
	my $sum = 0;
	$sum += length("row $_") for 1001 .. 11000;
	return $sum;
}
