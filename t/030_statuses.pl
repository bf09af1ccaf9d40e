# Every status that a real server can be made to say, and what it becomes in SQL: raw after one attempt
# (zaris.disable_retries), and within the budget otherwise.  What a real one will not say to a client that sends single
# keys to primaries only, a scripted node says.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Zaris::Cluster;
use Zaris::FakeNode;
use Zaris::Pg;
use Zaris::Process;
use Zaris::Single;

my $cluster = Zaris::Cluster->launch;
my $pg = Zaris::Pg->new;
$cluster->wait_until_up;
$pg->server('kv', url => $cluster->url, backoff => '20ms');
$pg->table('item', 'id text, value text', key => '<id>');
$pg->table('record', 'id text, a text, b int', key => '<id>', layout => 'hash');

my $session = $pg->session;

# One attempt must end in that status and SQLSTATE.
sub raw
{
	my ($sql, $status, $sqlstate, $name) = @_;
	$session->run('SET zaris.disable_retries = on');
	my $result = $session->run($sql);
	$session->run('RESET zaris.disable_retries');
	is($result->{sqlstate}, $sqlstate, "$name: SQLSTATE");
	like("$result->{message} $result->{detail}", qr/\b$status\b/, '... the raw status is named');
	like($result->{detail}, qr/1 attempt\b/, '... after one attempt');
	return $result;
}

sub works
{
	my ($sql, $expected, $name) = @_;
	my $result = $session->run($sql);
	is($result->{out}, $expected, $name) or diag $result->{stderr};
	return $result;
}

sub fails
{
	my ($sql, $status, $sqlstate, $name) = @_;
	my $result = $session->run($sql);
	is($result->{sqlstate}, $sqlstate, "$name: SQLSTATE") or diag $result->{stderr};
	like("$result->{message} $result->{detail}", qr/\b$status\b/, '... and the status') if $status;
	return $result;
}

my $slot = $cluster->slot('foo');    # 12182
$cluster->command('SET', 'foo', 'bar');
works("SELECT value FROM item WHERE id = 'foo'", 'bar', 'Ok');
works("SELECT value FROM item WHERE id = 'nothing'", '', 'NotFound is no row');

# ---- Moved

$cluster->move_slot($slot, 0);
raw("SELECT value FROM item WHERE id = 'foo'", 'Moved', '08006', 'Moved');
$cluster->move_slot($slot, 1);
works("SELECT value FROM item WHERE id = 'foo'", 'bar', 'a moved slot is followed');
$cluster->move_slot($slot, 2);
works("UPDATE item SET value = 'baz' WHERE id = 'foo' RETURNING value", 'baz', 'a write follows it too');

# ---- OwnershipChanging: the slot is open, the key is not there (any more)

works("SELECT value FROM item WHERE id = 'foo'", 'baz', 'the map is fresh');
$cluster->ask(0, 'CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $cluster->id(2));
$cluster->ask(2, 'CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $cluster->id(0));
raw("SELECT value FROM item WHERE id = '{foo}new'", 'OwnershipChanging', '08006', 'OwnershipChanging');
works("SELECT value FROM item WHERE id = '{foo}new'", '', 'an ASK is followed: not there either');
works("INSERT INTO item VALUES ('{foo}new', 'x')", '', 'an INSERT goes to the importing node');
is($cluster->cli(2, 'GET', '{foo}new') =~ /^ASK / ? 1 : 0, 1, '... and not to the old owner');
works("SELECT value FROM item WHERE id = '{foo}new'", 'x', '... where it is read');
works("SELECT count(*) FROM item WHERE id LIKE '{foo}%' OR id = 'foo'", 2, 'a scan sees both sides of an open slot');
works("DELETE FROM item WHERE id = '{foo}new'", '', 'a DELETE goes there too');
$cluster->migrate_keys($slot, 2, 0);
$cluster->ask($_, 'CLUSTER', 'SETSLOT', $slot, 'NODE', $cluster->id(0)) for 0, 2, 1;
works("SELECT value FROM item WHERE id = 'foo'", 'baz', 'the slot is closed again');

# ---- Unavailable

for my $n (0 .. 2)
{
	$cluster->ask($n, 'CLUSTER', 'DELSLOTS', $slot);
}
raw("SELECT value FROM item WHERE id = 'foo'", 'Unavailable', '08006', 'CLUSTERDOWN, slot not served');
my $result = fails("SELECT value FROM item WHERE id = 'foo'", 'Unavailable', '08006', 'a slot without an owner');
cmp_ok($result->{seconds}, '<', 20, '... is an error within the budget');
$result = fails('SELECT count(*) FROM item', '', '08006', 'a scan over it is an error, never a part');
works("SELECT value FROM item WHERE id = 'bar'", '', 'other slots are served meanwhile');
$cluster->ask(2, 'CLUSTER', 'ADDSLOTS', $slot);
Zaris::Process::wait_until('the slot is served again', sub { $cluster->owner($slot) == 2 });
$cluster->ask(0, 'CLUSTER', 'SETSLOT', $slot, 'NODE', $cluster->id(2));
$cluster->ask(1, 'CLUSTER', 'SETSLOT', $slot, 'NODE', $cluster->id(2));
$pg->sql("ALTER SERVER kv OPTIONS (ADD max_attempts '10')");
is($session->run("SELECT value FROM item WHERE id = 'bar'")->{sqlstate}, '00000', 'and the session goes on');

my $on_0 = $cluster->key_on(0, 'busy');
$cluster->cli(0, 'CONFIG', 'SET', 'busy-reply-threshold', 20);
my $busy = Zaris::Process::child(sub { $cluster->node(0)->connect(timeout => 60)->call('EVAL', 'while true do end', 0) });
Zaris::Process::wait_until('the node is busy', sub { "@{[$cluster->node(0)->connect->call('GET', $on_0)]}" =~ /^BUSY/ });
raw("SELECT value FROM item WHERE id = '$on_0'", 'Unavailable', '08006', 'BUSY');
$cluster->node(0)->connect->call('SCRIPT', 'KILL');
Zaris::Process::reap($busy, 5);
works("SELECT count(*) FROM item WHERE id = '$on_0'", 0, '... until the script is killed');

$cluster->ask(0, 'CONFIG', 'SET', 'min-replicas-to-write', 5);
raw("INSERT INTO item VALUES ('$on_0', 'x')", 'Unavailable', '08006', 'NOREPLICAS');
$cluster->ask(0, 'CONFIG', 'SET', 'min-replicas-to-write', 0);

$cluster->ask(0, 'DEBUG', 'POPULATE', 20_000, 'p', 10);
$cluster->ask(0, 'CONFIG', 'SET', 'key-load-delay', 100, 'loading-process-events-interval-bytes', 1024);
my $reload = Zaris::Process::child(sub { $cluster->node(0)->connect(timeout => 60)->call('DEBUG', 'RELOAD') });
Zaris::Process::wait_until('the node is loading',
	sub { "@{[$cluster->node(0)->connect->call('GET', $on_0)]}" =~ /^LOADING/ });
raw("SELECT value FROM item WHERE id = '$on_0'", 'Unavailable', '08006', 'LOADING');
$cluster->node(0)->connect->call('CONFIG', 'SET', 'key-load-delay', 0);
Zaris::Process::reap($reload, 30);
$cluster->ask(0, 'FLUSHALL');
works("SELECT count(*) FROM item WHERE id = '$on_0'", 0, '... until it has loaded');

# ---- Conflict, WrongType

works("INSERT INTO item VALUES ('$on_0', 'x')", '', 'IfAbsent');
$result = fails("INSERT INTO item VALUES ('$on_0', 'y')", '', '23505', 'IfAbsent on a key that is there');
like($result->{message}, qr/^duplicate key value violates unique constraint/, '... in PostgreSQL\'s words');
like($result->{detail}, qr/^Key \(id\)=\(\Q$on_0\E\) already exists\./, '... detail too');
$cluster->command('HSET', 'some-hash', 'a', '1');
works("SELECT count(*) FROM item WHERE id = 'some-hash'", 0, 'a key of another kind is no row');
fails("INSERT INTO item VALUES ('some-hash', 'x')", 'WrongType', '42804', 'INSERT onto a key of another kind');
fails("INSERT INTO record VALUES ('$on_0', 'x', 1)", 'WrongType', '42804', '... the other way round');
is($cluster->command('HGET', 'some-hash', 'a'), 1, '... and nothing was written');

# ---- ResourceExhausted, persistence, limits

my $on_1 = $cluster->key_on(1, 'full');
$cluster->ask(1, 'CONFIG', 'SET', 'maxmemory', 1);
$result = fails("INSERT INTO item VALUES ('$on_1', 'x')", 'OutOfMemory', '53200', 'OOM');
works("SELECT count(*) FROM item WHERE id = '$on_1'", 0, '... nothing was written, and it can be read');
$cluster->ask(1, 'CONFIG', 'SET', 'maxmemory', 0);

$cluster->ask(1, 'CONFIG', 'SET', 'save', '3600 1');
my $gone = Zaris::Process::short_directory() . '/gone';
mkdir($gone);
$cluster->ask(1, 'CONFIG', 'SET', 'dir', $gone);
rmdir($gone);
$cluster->cli(1, 'BGSAVE');
Zaris::Process::wait_until('the save has failed', sub { $cluster->cli(1, 'SET', $on_1, 'x') =~ /^MISCONF/ });
fails("INSERT INTO item VALUES ('$on_1', 'x')", 'OutOfStorage', '53100', 'MISCONF');
$cluster->ask(1, 'CONFIG', 'SET', 'save', '');
$cluster->ask(1, 'CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'no');

# ---- logins

my $single = Zaris::Single->new(password => 'secret');
my $one = 'redis://127.0.0.1:' . $single->port;
$pg->server('locked', url => $one);
$pg->table('locked_item', 'id text, value text', key => '<id>');
$result = fails("SELECT * FROM locked_item WHERE id = 'a'", 'Unauthenticated', '28000', 'NOAUTH');
like($result->{hint}, qr/USER MAPPING/i, '... with a hint');
$pg->sql("CREATE USER MAPPING FOR CURRENT_USER SERVER locked OPTIONS (password 'wrong')");
$result = fails("SELECT * FROM locked_item WHERE id = 'a'", 'BadCredentials', '28P01', 'WRONGPASS');
unlike($result->{stderr}, qr/wrong\b(?! pass)/i, '... and the password is not shown')
  unless $result->{stderr} =~ /WRONGPASS/;
$pg->sql("ALTER USER MAPPING FOR CURRENT_USER SERVER locked OPTIONS (SET password 'secret')");
works("SELECT count(*) FROM locked_item WHERE id = 'a'", 0, 'the right password');
$single->call('ACL', 'SETUSER', 'bob', 'on', '>b', '~*', '+get', '+type', '+role', '+cluster');
$pg->sql("ALTER USER MAPPING FOR CURRENT_USER SERVER locked OPTIONS (ADD user 'bob', SET password 'b')");
works("SELECT count(*) FROM locked_item WHERE id = 'a'", 0, 'an ACL user');
$result = fails("INSERT INTO locked_item VALUES ('a', 'x')", 'PermissionDenied', '42501', 'NOPERM');
$single->call('ACL', 'DELUSER', 'bob');

$pg->sql('DROP USER MAPPING FOR CURRENT_USER SERVER locked');
$single->call('CONFIG', 'SET', 'requirepass', '');
works("SELECT count(*) FROM locked_item WHERE id = 'a'", 0, 'no password is needed any more');
$single->call('CONFIG', 'SET', 'requirepass', 'secret');
$single->call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
fails("SELECT * FROM locked_item WHERE id = 'a'", 'Unauthenticated', '28000', 'a password that is required later');

# ---- ReplicaWriteRejected: the node was made a replica behind our back

my $old = Zaris::Single->new;
my $new = Zaris::Single->new;
$pg->server('pair', url => 'redis://127.0.0.1:' . $old->port);
$pg->table('pair_item', 'id text, value text', key => '<id>');
works("INSERT INTO pair_item VALUES ('a', 'x')", '', 'a single primary');
$old->ask('REPLICAOF', '127.0.0.1', $new->port);
Zaris::Process::wait_until('it is a replica', sub { $old->info('replication')->{master_link_status} eq 'up' });
raw("INSERT INTO pair_item VALUES ('b', 'x')", 'ReplicaWriteRejected', '08006', 'READONLY');
works("INSERT INTO pair_item VALUES ('b', 'x')", '', 'the refresh finds the primary');
is($new->call('GET', 'b'), 'x', '... and the write is there');

# ---- too many clients, nobody there, connection lost

my $crowded = Zaris::Single->new;
$pg->server('crowded', url => 'redis://127.0.0.1:' . $crowded->port, backoff => '10ms');
$pg->table('crowded_item', 'id text, value text', key => '<id>');
$crowded->call('PING');
$crowded->call('CONFIG', 'SET', 'maxclients', 1);
fails("SELECT * FROM crowded_item WHERE id = 'a'", '', '53300', 'max clients');
$crowded->call('CONFIG', 'SET', 'maxclients', 100);
works("SELECT count(*) FROM crowded_item WHERE id = 'a'", 0, '... until there is room');
$crowded->call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
works("SELECT count(*) FROM crowded_item WHERE id = 'a'", 0, 'a connection that the server closed is made anew');
$crowded->kill9;
$result = fails("SELECT * FROM crowded_item WHERE id = 'a'", 'ConnectError', '08006', 'a node that died');
like($result->{detail}, qr/3 attempts/, '... the budget was used');
my ($nobody) = Zaris::Process::free_ports(1);
$pg->server('nobody', url => "redis://127.0.0.1:$nobody", backoff => '10ms');
$pg->table('nobody_item', 'id text, value text', key => '<id>');
fails("SELECT * FROM nobody_item WHERE id = 'a'", 'ConnectError', '08001', 'a store that was never reached');

# ---- what only a scripted node says

my %said = (
	"-TRYAGAIN Multiple keys request during rehashing of slot\r\n" => [ 'Migrating', '08006' ],
	"-MIGRATING the slot is on its way\r\n" => [ 'Migrating', '08006' ],
	"-OWNERSHIPCHANGING preferred primary returns\r\n" => [ 'OwnershipChanging', '08006' ],
	"-REPLICAWRITEREJECTED not the owner\r\n" => [ 'ReplicaWriteRejected', '08006' ],
	"-UNAVAILABLE no owner\r\n" => [ 'Unavailable', '08006' ],
	"-MASTERDOWN Link with MASTER is down\r\n" => [ 'Unavailable', '08006' ],
	"-ERR unknown command 'GET'\r\n" => [ 'InvalidRequest', 'XX000' ],
	"-CROSSSLOT Keys in request don't hash to the same slot\r\n" => [ 'InvalidRequest', 'XX000' ],
	"-CLUSTERDOWN The cluster is down\r\n" => [ 'Unavailable', '08006' ]);
for my $words (sort keys %said)
{
	my ($status, $sqlstate) = @{ $said{$words} };
	my $fake = Zaris::FakeNode->new('GET' => $words);
	$pg->server('scripted', url => $fake->url);
	$pg->table('scripted_item', 'id text, value text', key => '<id>');
	$words =~ /^-(\w+ ?\w*)/;
	raw("SELECT value FROM scripted_item WHERE id = 'a'", $status, $sqlstate, "scripted $1");
	is($fake->count('GET'), 1, '... one GET went out');
	$fake->script('GET' => "\$2\r\nok\r\n");
	works("SELECT value FROM scripted_item WHERE id = 'a'", 'ok', '... and the session goes on');
	$pg->sql('DROP SERVER scripted CASCADE');
	$fake->stop;
}

my $fake = Zaris::FakeNode->new(
	'GET' => "\$3\r\nold\r\n",
	'EVAL' => "-CONFLICT somebody was faster\r\n",
	'EVALSHA' => "-CONFLICT somebody was faster\r\n");
$pg->server('scripted', url => $fake->url);
$pg->table('scripted_item', 'id text, value text', key => '<id>');
$result = fails("UPDATE scripted_item SET value = value || 'x' WHERE id = 'a'", 'Conflict', '40001', '-CONFLICT');
is($fake->count('EVAL') + $fake->count('EVALSHA'), 1, '... is never retried (I7)');
$pg->sql('DROP SERVER scripted CASCADE');

# ---- a write whose answer is lost: sent again, and then the answer decides

my $real = Zaris::Single->new;
$real->call('SET', 'n', 'old');
my %lost = (single => 1, '*' => { forward => $real->port });
my $after = { forward => $real->port, bytes => '', close => 1 };
my $lossy = Zaris::FakeNode->new(%lost, 'EVAL' => $after, 'EVALSHA' => $after, 'SET' => $after);
$pg->server('lossy', url => $lossy->url, backoff => '10ms');
$pg->table('lossy_item', 'id text, value text', key => '<id>');
$result = fails("UPDATE lossy_item SET value = value || '!' WHERE id = 'n'", 'outcome of the write is unknown', '08007',
	'applied, answer lost');
isnt($result->{hint}, '', '... with a hint how to look');
is($real->call('GET', 'n'), 'old!', '... it was applied once');
$result = fails("INSERT INTO lossy_item VALUES ('m', 'x')", 'outcome of the write is unknown', '08007',
	'an INSERT likewise');
my $dropped = { bytes => '', close => 1 };
my @then = ($dropped, { forward => $real->port });
$lossy = Zaris::FakeNode->new(%lost, 'EVAL' => [@then], 'EVALSHA' => [@then], 'SET' => [@then]);
$pg->sql("ALTER SERVER lossy OPTIONS (SET url '" . $lossy->url . "')");
works("UPDATE lossy_item SET value = value || '?' WHERE id = 'n' RETURNING value", 'old!?',
	'not applied, answer lost: sent again, and it is the answer that decides');
works("INSERT INTO lossy_item VALUES ('o', 'x') RETURNING value", 'x', 'an INSERT likewise');

$session->close;
done_testing();
