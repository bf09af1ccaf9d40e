# Reading: keys and rows belong together (I12), values come in every type, scans are whole, and what is wrong in the data
# is said with key and column.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Time::HiRes qw(sleep);
use Zaris::Cluster;
use Zaris::Pg;

my $cluster = Zaris::Cluster->launch(replicas => 0);
my $pg = Zaris::Pg->new;
$cluster->wait_until_up;
$pg->server('kv', url => $cluster->url);
my $session = $pg->session;

sub reads
{
	my ($sql, $expected, $name) = @_;
	my $result = $session->run($sql);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($result->{out}, $expected, $name // $sql) or diag $result->{stderr};
	return $result;
}

sub fails
{
	my ($sql, $sqlstate, $name) = @_;
	my $result = $session->run($sql);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($result->{sqlstate}, $sqlstate, $name // $sql) or diag "$result->{out}\n$result->{stderr}";
	return $result;
}

sub set { return $cluster->command('SET', @_) }

# ---- a string table

$pg->table('item', 'id int, value text, version bigint, expires_at timestamptz', key => 'item:<id>');
reads('SELECT * FROM item', '', 'an empty store');
reads('SELECT count(*) FROM item', 0);
$cluster->load({ map { ("item:$_" => "value $_") } 1 .. 100 });
reads('SELECT id, value FROM item WHERE id = 7', '7|value 7', 'one key');
reads('SELECT id, value FROM item WHERE id = 101', '', 'a key that is not there');
reads('SELECT count(*), count(DISTINCT id), sum(length(value)) FROM item', '100|100|792', 'a scan');
reads('SELECT id FROM item WHERE id IN (5, 3, 3, NULL, 1000, 1)', "5\n3\n1", 'rows come in the order of the keys asked for');
reads('SELECT item FROM item WHERE id = 1', qq{(1,"value 1",} . $pg->sql("SELECT zaris_version('value 1')") . ',)',
	'a whole row');
reads("SELECT version = zaris_version(value), expires_at FROM item WHERE id = 1", 't|', 'version and no expiry');
reads('SELECT tableoid::regclass FROM item WHERE id = 1', 'item', 'tableoid');

my $when = 1000 * (time() + 1000) + 123;
$cluster->command('PEXPIREAT', 'item:1', $when);
reads("SELECT round(extract(epoch FROM expires_at) * 1000)::bigint FROM item WHERE id = 1", $when, 'expires_at of a key');
reads('SELECT count(*) FROM item WHERE expires_at IS NOT NULL', 1, '... and in a scan');
reads('SELECT expires_at = (SELECT i.expires_at FROM item i WHERE i.id = 1) FROM item WHERE expires_at IS NOT NULL', 't');

set('item:1000', '');
reads("SELECT value = '', value IS NULL FROM item WHERE id = 1000", 't|f', 'an empty value is no NULL');
set('item:1001', 'x' x 3_000_000);
reads('SELECT length(value), md5(value) FROM item WHERE id = 1001', '3000000|' . $pg->sql("SELECT md5(repeat('x', 3000000))"),
	'a large value');

# ---- which keys are rows (I12)

set("item:$_", 'none') for '007', '+8', '-0', '1e3', ' 9', '9 ', '', 'x', '2147483648', "9\0", "\xff";
reads('SELECT count(*) FROM item', 102, 'keys that are spelt otherwise are no rows');
reads('SELECT count(*) FROM item WHERE id = 7', 1);
reads('SELECT value FROM item WHERE id = 2147483648', '', 'a number that the column cannot hold');

# One spelling a type: what is written in that spelling is a row, found by scan and by key; the others are none.
my @types = (
	[ 'smallint', '-32768', [ '32768', '01' ] ],
	[ 'bigint', '-9223372036854775808', [ '9223372036854775808', '-9223372036854775809', '18446744073709551617' ] ],
	[ 'text', 'a b:c%', [] ],
	[ 'text', "\x{c3}\x{a9}", ["\xff"] ],
	[ 'varchar(3)', 'abc', ['abcd'] ],
	[ 'name', 'abc', [ 'x' x 64 ] ],
	[ 'uuid', '123e4567-e89b-12d3-a456-426614174000',
		[ '123E4567-e89b-12d3-a456-426614174001', '123e4567e89b12d3a456426614174002', '' ] ],
	[ 'boolean', 't', [ 'true', '1', 'T', '' ] ],
	[ 'date', '2024-02-29', [ '2023-02-29', '2024-2-1', '20240301', 'today', '0000-01-01', '5874898-01-01', '' ] ],
	[ 'date', '0044-03-15 BC', ['00044-03-15 BC'] ],
	[ 'date', 'infinity', ['Infinity'] ],
	[ 'timestamptz', '2024-02-29 12:00:00.5+00',
		[ '2024-02-29 12:00:01.50+00', '2024-02-29 13:00:00+01', '2024-02-29 12:00+00', '2024-02-29 24:00:00+00', 'now' ] ],
	[ 'timestamptz(0)', '2024-02-29 12:00:00+00', ['2024-02-29 12:00:00.5+00'] ],
	[ 'mood', 'happy', [ 'Happy', 'sad ' ] ],
	[ 'small', '9', [ '10', '09' ] ],
	[ 'small_text', 'abc', [ 'abcd', 'ABC' ] ]);
$pg->sql("CREATE TYPE mood AS ENUM ('sad', 'happy');
	CREATE DOMAIN small AS int CHECK (VALUE < 10);
	CREATE DOMAIN small_text AS varchar(3) CHECK (VALUE = lower(VALUE))");
for my $i (0 .. $#types)
{
	my ($type, $good, $bad) = @{ $types[$i] };
	$pg->table("t$i", "k $type, v text", key => "t$i/<k>");
	set("t$i/$_", 'bad') for @$bad;
	set("t$i/$good", 'good');
	my $literal = "'$good'::$type";
	reads("SET timezone = 'Asia/Kolkata'; SET datestyle = 'SQL, DMY'; SELECT v, k = $literal FROM t$i", 'good|t',
		"key of type $type: $good");
	reads("SELECT v FROM t$i WHERE k = $literal", 'good', '... found');
	reads("SELECT v FROM t$i WHERE k = ANY (ARRAY[NULL, $literal, $literal])", 'good', '... in an array');
}
$session->run("RESET ALL");

$pg->table('raw', 'k bytea, v bytea', key => 'raw/<k>');
set("raw/\0\xff\x01", "\xff\0");
set('raw/', '');
reads('SELECT * FROM raw ORDER BY k', "\\x|\\x\n\\x00ff01|\\xff00", 'bytea takes any bytes');
reads("SELECT v FROM raw WHERE k = '\\x00ff01'", '\xff00');
reads("SELECT length(v) FROM raw WHERE k = ''", 0);

# ---- keys of several columns

$pg->table('line', 'a text, b text, v text', key => '<a>:<b>/x');
set("$_/x", $_) for 'p:q', 'p:q:r', ':', 'p:';
set($_, 'none') for 'p/x', 'p:q/y', 'p:q/xx', 'p:q';
reads('SELECT a, b, v FROM line ORDER BY v COLLATE "C"', "||:\np||p:\np|q|p:q\np|q:r|p:q:r", 'a text ends at the first literal');
reads("SELECT v FROM line WHERE a = 'p' AND b = 'q:r'", 'p:q:r');
reads("SELECT v FROM line WHERE a = 'p:q' AND b = 'r'", '', 'two columns that would make the same key: only one is the row');
reads("SELECT count(*) FROM line WHERE a = 'p:q'", 0, '... also as a prefix');
reads("SELECT count(*) FROM line WHERE a = 'p'", 3, 'a prefix');
reads("SELECT count(*) FROM line WHERE b = 'q'", 1);
set('{tag}:1:2', 'tagged');
$pg->table('tagged', 'a int, b int, v text', key => '{tag}:<a>:<b>');
reads('SELECT a, b, v FROM tagged', '1|2|tagged', 'a hash tag in the template');
$pg->table('odd', 'a int, v text', key => 'x<<y><a>*?[]\\');
set('x<y>1*?[]\\', 'odd');
set('x<y>1ab[]\\', 'none');
reads('SELECT a, v FROM odd', '1|odd', 'everything that could mean something else, in a template');

# ---- hashes

$pg->table('person', "id int, name text, email text OPTIONS (field 'e-mail'), age int, version bigint, expires_at timestamptz",
	key => 'person:<id>', layout => 'hash');
$cluster->command('HSET', 'person:1', 'name', 'Ann', 'e-mail', 'a@x', 'age', 30);
$cluster->command('HSET', 'person:2', 'name', 'Bob', 'other', 'zzz');
reads('SELECT id, name, email, age FROM person ORDER BY id', "1|Ann|a\@x|30\n2|Bob||", 'fields; a missing one is NULL');
reads('SELECT name, age FROM person WHERE id = 1', 'Ann|30');
reads('SELECT id FROM person WHERE age IS NULL', 2);
reads('SELECT count(*) FROM person', 2);
reads('SELECT (SELECT version FROM person WHERE id = 1) = (SELECT version FROM person WHERE name = $$Ann$$)', 't',
	'versions are the same by key and by scan');
my $before = $pg->sql('SELECT version FROM person WHERE id = 2');
$cluster->command('HSET', 'person:2', 'other', 'yyy');
isnt($pg->sql('SELECT version FROM person WHERE id = 2'), $before, 'the version is of the whole record');
$cluster->command('EXPIRE', 'person:1', 1000);
reads('SELECT expires_at > now() FROM person ORDER BY id', "t\n", 'expiry of a hash');

# ---- keys of another kind

$cluster->load({ map { ("mixed:$_" => $_) } 1 .. 3000 });
my @batch;
for my $i (3001 .. 6000)
{
	my $slot = $cluster->slot("mixed:$i");
	push @{ $batch[ $slot < 5461 ? 0 : $slot < 10923 ? 1 : 2 ] }, [ 'HSET', "mixed:$i", 'v', $i ];
}
$cluster->node($_)->connect->pipeline(@{ $batch[$_] }) for 0 .. 2;
$cluster->command('LPUSH', 'mixed:6001', 1);
$cluster->command('SADD', 'mixed:6002', 1);
$pg->table('mixed_strings', 'id int, v text', key => 'mixed:<id>');
$pg->table('mixed_hashes', 'id int, v text', key => 'mixed:<id>', layout => 'hash');
reads('SELECT count(*), min(id), max(id) FROM mixed_strings', '3000|1|3000', 'hashes are no rows of a string table');
reads('SELECT sum(v::int) FROM mixed_strings', 4501500);
reads('SELECT count(*), min(id), max(id) FROM mixed_hashes', '3000|3001|6000', 'strings are no rows of a hash table');
reads('SELECT sum(v::int) FROM mixed_hashes', 13501500);
reads('SELECT count(*) FROM mixed_strings WHERE id = 4000', 0, 'a key of another kind is no row');
reads('SELECT v FROM mixed_strings WHERE id IN (2999, 3000, 3001, 6001)', "2999\n3000");
reads('SELECT v FROM mixed_hashes WHERE id IN (2999, 3000, 3001, 6001)', '3001');

# ---- values

my %values = (
	'int' => [ '42', ' 42 ' ],
	'bigint' => [ '42', '0042', ' +42' ],
	'boolean' => [ 't', 'yes' ],
	'numeric(6,2)' => [ '1.50', '1.5' ],
	'real' => [ '0.1', '1e-1' ],
	'uuid' => [ '123e4567-e89b-12d3-a456-426614174000', '{123E4567-E89B-12D3-A456-426614174000}' ],
	'date' => [ '2024-02-29', '29 feb 2024' ],
	'timestamptz' => [ '2024-02-29 12:00:00+00', '2024-02-29T17:30:00+05:30' ],
	'timestamp' => [ '2024-02-29 12:00:00', '2024-02-29T12:00:00' ],
	'interval' => [ '1 day 02:03:04', 'P1DT2H3M4S' ],
	'jsonb' => [ '{"a": [1, 2]}', '{"a":[1,2]}' ],
	'json' => ['{"a" :  1}'],
	'int[]' => ['{1,NULL,3}'],
	'point' => ['(1,2)'],
	'inet' => ['10.0.0.1'],
	'varchar(5)' => ['abc'],
	'char(5)' => [ 'abc  ', 'abc' ],
	'mood' => ['sad'],
	'small' => ['3']);
for my $type (sort keys %values)
{
	$pg->table('typed', "id int, v $type", key => 'typed:<id>');
	my ($text) = @{ $values{$type} };
	for my $stored (@{ $values{$type} })
	{
		set('typed:1', $stored);
		reads("SET datestyle = 'German'; SET intervalstyle = 'sql_standard'; SET extra_float_digits = -10;
			SET timezone = 'Asia/Kolkata'; SELECT v::text = '$text'::$type\::text FROM typed WHERE id = 1", 't',
			"value of type $type: $stored");
	}
	$session->run('RESET ALL');
	$pg->sql('DROP FOREIGN TABLE typed');
}

# ---- data that do not fit

set('bad:1', "a\xffb");
set('bad:2', "a\0b");
set('bad:3', 'word');
set('bad:4', '99999999999');
set("bad:\xff\xfe", 'v');
$pg->table('bad_text', 'id text, v text', key => 'bad:<id>');
$pg->table('bad_bytes', 'id bytea, v bytea', key => 'bad:<id>');
$pg->table('bad_int', 'id int, v int', key => 'bad:<id>');
my $result = fails("SELECT * FROM bad_text WHERE id = '1'", '22021', 'invalid UTF-8');
like("$result->{message} $result->{detail}", qr/column "v" of foreign table "bad_text".*Key: "bad:1"/, '... names key and column');
$result = fails("SELECT * FROM bad_text WHERE id = '2'", '22021', 'a zero byte');
like($result->{detail}, qr/bad:2/);
fails('SELECT * FROM bad_text', '22021', 'the same in a scan');
reads("SELECT count(*) FROM bad_text", 4, 'a key that is no text is no row, and values that nobody asks for do not matter');
reads("SELECT v FROM bad_bytes WHERE id IN ('1', '2', '\\xfffe') ORDER BY v", "\\x610062\n\\x61ff62\n\\x76", 'bytea always works');
$result = fails('SELECT v FROM bad_int WHERE id = 3', '22P02', 'a text that the type refuses');
like($result->{context}, qr/key "bad:3", column "v" of foreign table "bad_int"/, '... with key and column');
fails('SELECT v FROM bad_int WHERE id = 4', '22003', 'out of range');
reads('SELECT id FROM bad_int WHERE id IN (3, 4)', "3\n4", 'not read, not refused');
reads('SELECT 1', 1, 'the session goes on');
set('small:1', '11');
$pg->table('bad_domain', 'id int, v small', key => 'small:<id>');
fails('SELECT v FROM bad_domain', '23514', 'a value that a domain refuses');

# ---- cursors, and stops in the middle

$session->run('BEGIN; DECLARE c CURSOR FOR SELECT id, value FROM item');
$session->run("SET LOCAL zaris.request_timeout = '300ms'");
my %seen;
for (1 .. 6)
{
	my $rows = $session->run('FETCH 20 FROM c')->{out};
	$seen{$_}++ for $rows =~ /^(\d+)\|/mg;
	sleep(0.4);
}
is(scalar(keys %seen), 102, 'a cursor that rests longer than request_timeout is complete');
is(scalar(grep { $_ > 1 } values %seen), 0, '... and names no key twice');
$session->run('COMMIT');

$session->run('BEGIN; DECLARE c CURSOR FOR SELECT id FROM item; FETCH 1 FROM c; SAVEPOINT s;
	DECLARE d CURSOR FOR SELECT value FROM item WHERE id IN (1, 2); FETCH 1 FROM d; ROLLBACK TO s');
reads('SELECT count(*) FROM item', 102, 'after ROLLBACK TO a savepoint');
reads('SELECT name FROM pg_cursors', 'c', 'the inner cursor is gone');
is(scalar(split /\n/, $session->run('FETCH ALL FROM c')->{out}), 101, '... and the outer one goes on');
$session->run('ROLLBACK');
reads('SELECT count(*) FROM (SELECT id FROM item LIMIT 5) l', 5, 'LIMIT');
reads('SELECT value FROM item WHERE id = 3', 'value 3', '... and the next statement gets its own answer');
$session->run('BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id FROM item WHERE id IN (1, 2, 3); FETCH 1 FROM c; COMMIT');
reads('FETCH ALL FROM c', "2\n3", 'WITH HOLD');
$session->run('CLOSE c');
$session->run('BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM item WHERE id IN (1, 2, 3); FETCH ALL FROM c');
reads('FETCH BACKWARD ALL FROM c', "3\n2\n1", 'SCROLL');
$session->run('COMMIT');
fails("SELECT id / (id - id) FROM item", '22012', 'an error in the middle of a scan');
reads('SELECT count(*) FROM item', 102, '... and the next scan is whole');

# ---- every row, however often the scan begins anew

$pg->sql('CREATE TABLE local AS SELECT x, x % 10 + 1 AS y FROM generate_series(1, 30) x; ANALYZE local');
for my $settings ('', 'SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off;')
{
	$session->run($settings) if $settings;
	reads('SELECT count(*), sum(length(i.value)) FROM local JOIN item i ON i.id = local.x', '30|231', 'a join by key');
	reads('SELECT count(*), count(DISTINCT i.id) FROM local JOIN item i ON i.id = local.y', '30|10', 'keys that repeat');
	reads('SELECT count(*) FROM local l JOIN item i ON i.id > l.x AND i.id < l.x + 3', 60, 'a scan for each outer row');
	reads('SELECT sum((SELECT length(value) FROM item WHERE id = local.x)) FROM local', 231, 'a correlated subquery');
	reads('SELECT sum((SELECT count(*) FROM item WHERE id BETWEEN local.x AND local.x + 1)) FROM local', 60, '... that scans');
	reads('SELECT count(*) FROM local, LATERAL (SELECT value FROM item WHERE id = local.x OFFSET 0) i', 30, 'LATERAL');
	reads('SELECT count(*) FROM local WHERE EXISTS (SELECT FROM item WHERE id = local.x * 10)', 10, 'EXISTS');
	reads('SELECT count(*) FROM local WHERE NOT EXISTS (SELECT FROM item WHERE id = local.x * 10)', 20, 'NOT EXISTS');
	reads('SELECT count(i.id), count(*) FROM local LEFT JOIN item i ON i.id = local.x * 10', '10|30', 'LEFT JOIN');
	reads('WITH RECURSIVE r AS (SELECT 1 AS id UNION ALL SELECT i.id + 1 FROM r JOIN item i ON i.id = r.id WHERE r.id < 20)
		SELECT max(id) FROM r', 20, 'a recursion');
	reads('SELECT count(*) FROM item a JOIN item b ON b.id = a.id + 1', 100, 'a table with itself');
}
$session->run('RESET ALL');

# ---- partitions

$pg->sql("CREATE TABLE part (id int, value text) PARTITION BY RANGE (id);
	CREATE FOREIGN TABLE part1 PARTITION OF part FOR VALUES FROM (1) TO (51) SERVER kv OPTIONS (key 'part1:<id>');
	CREATE FOREIGN TABLE part2 PARTITION OF part FOR VALUES FROM (51) TO (101) SERVER kv OPTIONS (key 'part2:<id>')");
$cluster->load({ map { (($_ < 51 ? 'part1:' : 'part2:') . $_ => "p$_") } 1 .. 100 });
reads('SELECT count(*), sum(id) FROM part', '100|5050', 'partitions');
reads('SELECT value FROM part WHERE id = 77', 'p77');
reads('SELECT count(*) FROM local JOIN part ON part.id = local.x * 3', 30, 'a join with partitions');
$pg->sql('CREATE TABLE lpart (id int) PARTITION BY RANGE (id);
	CREATE TABLE lpart1 PARTITION OF lpart FOR VALUES FROM (1) TO (51);
	CREATE TABLE lpart2 PARTITION OF lpart FOR VALUES FROM (51) TO (101);
	INSERT INTO lpart SELECT generate_series(41, 60); ANALYZE lpart');
reads('SET enable_partitionwise_join = on; SELECT count(*), sum(part.id) FROM lpart JOIN part USING (id)', '20|1010',
	'a join partition by partition');
$session->run('RESET ALL');

# ---- tables that make no sense

my @tables = (
	[ 'HV004', 'id char(3), v text', { key => 'x:<id>' } ],
	[ 'HV004', 'id numeric, v text', { key => 'x:<id>' } ],
	[ 'HV005', 'id int, v text', { key => 'x:<key>' } ],
	[ 'HV007', 'id int, v text, w text', { key => 'x:<id>' } ],
	[ 'HV007', 'id int', { key => 'x:<id>' } ],
	[ 'HV007', "id int, v text, a bigint OPTIONS (role 'version'), version bigint", { key => 'x:<id>' } ],
	[ 'HV004', 'id int, v text, version text', { key => 'x:<id>' } ],
	[ 'HV004', 'id int, v text, expires_at timestamp', { key => 'x:<id>' } ],
	[ 'HV007', "id int, a text OPTIONS (field 'f'), f text", { key => 'x:<id>', layout => 'hash' } ],
	[ 'HV00D', "id int, v text OPTIONS (field 'f')", { key => 'x:<id>' } ],
	[ 'HV00D', "id int OPTIONS (role 'value'), v text", { key => 'x:<id>' } ],
	[ '0A000', 'id int, v text, g int GENERATED ALWAYS AS (id + 1) STORED', { key => 'x:<id>' } ]);
for (@tables)
{
	my ($sqlstate, $columns, $options) = @$_;
	$pg->table('senseless', $columns, %$options);
	$result = fails('SELECT * FROM senseless', $sqlstate, "($columns) is refused");
	like($result->{message}, qr/senseless/, '... by name');
	$pg->sql('DROP FOREIGN TABLE senseless');
}
$pg->table('renamed', "id int, version text OPTIONS (role 'value')", key => 'item:<id>');
reads('SELECT version FROM renamed WHERE id = 2', 'value 2', 'a value column may be called version');
$pg->sql("ALTER FOREIGN TABLE renamed ADD COLUMN gone int; ALTER FOREIGN TABLE renamed DROP COLUMN gone;
	ALTER FOREIGN TABLE renamed ADD COLUMN v bigint OPTIONS (role 'version')");
reads('SELECT renamed.version, v = zaris_version(renamed.version) FROM renamed WHERE id = 2', 'value 2|t', 'dropped columns');

done_testing();
