# The tools of the other tests: they must do what they say, or nothing that is shown with them is shown.
use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time);
use Zaris::Cluster;
use Zaris::FakeNode;
use Zaris::Pg;
use Zaris::Single;

my $cluster = Zaris::Cluster->launch;

# ---- PostgreSQL

my $pg = Zaris::Pg->new(extension => 0);
is($pg->sql('SELECT 1; SELECT 2'), "1\n2", 'rows');
my $result = $pg->try('SELECT 1/0; SELECT 1');
is($result->{sqlstate}, '22012', 'an error has its SQLSTATE');
is($result->{message}, 'division by zero', '... and its message');
is($result->{out}, '1', '... and the session goes on');
ok(!eval { $pg->sql('SELECT 1/0; SELECT 1'); 1 }, 'sql dies on an error');
$pg->fails_with('42P01', 'SELECT * FROM nothing', 'fails_with');

my $session = $pg->session;
my $backend = $session->pid;
$session->start('SELECT pg_sleep(60)');
ok(!$session->is_done, 'a statement runs');
$pg->sql("SELECT pg_cancel_backend($backend)");
is($session->finish->{sqlstate}, '57014', 'a cancelled statement');
is($session->run("DO \$\$ BEGIN RAISE 'no' USING errcode = '40001', detail = 'D.', hint = 'H.'; END \$\$")->{hint},
	'H.', 'hints are read');
$session->start('SELECT pg_sleep(60)');
$pg->sql("SELECT pg_terminate_backend($backend)");
$result = $session->finish;
is("$result->{sqlstate} $result->{lost}", '57P01 1', 'a lost connection');
like($pg->pgbench("SELECT 1;\n", clients => 2, transactions => 5), qr/processed: 10\/10/, 'pgbench');

# ---- a cluster

$cluster->wait_until_up;
is(Zaris::Resp::slot('foo{bar}{zap}'), 5061, 'slot of a tag');
is(Zaris::Resp::slot('123456789'), 12739, 'slot of a key');
$cluster->load({ map { ("key:$_" => $_) } 1 .. 3000 });
is($cluster->command('GET', 'key:77'), 77, 'a key is found by its slot');
is($cluster->owner(Zaris::Resp::slot($cluster->key_on(2, 'x'))), 2, 'key_on');
ok(!defined $cluster->command('GET', 'nothing'), 'nil is undef');
like($cluster->cli(0, 'GET', $cluster->key_on(1, 'x')), qr/^MOVED \d+ 127.0.0.1:\d+$/, 'an error is a value');
is_deeply($cluster->counted(sub { $cluster->cli(1, 'GET', $cluster->key_on(1, 'x')) }),
	{ 'get' => 1, 'cluster|slots' => 1 }, 'commands are counted');

my @slots = map { Zaris::Resp::slot($_) } 'key:1', 'key:2', 'key:3';
my $mover = $cluster->mover(\@slots);
$mover->wait_for(10);
is(scalar(grep { $cluster->command('GET', 'key:1') eq '1' } 1 .. 50), 50, 'a moving key is always found');
ok($mover->stop >= 10, 'slots move to and fro');
is($cluster->command('GET', "key:$_"), $_, "key:$_ is there after the moves") for 1 .. 3;
my $size = 0;
$size += $cluster->cli($_, 'DBSIZE') for 0 .. 2;
is($size, 3000, 'no key is lost or doubled');

$cluster->failover(3);
is_deeply([ sort $cluster->primaries ], [ 1, 2, 3 ], 'a graceful failover');
$cluster->node(1)->kill9;
$cluster->wait_until_primary(4);
is($cluster->command('GET', 'key:77'), 77, 'data outlive a killed primary');
$cluster->node(1)->restart;
$cluster->wait_until_ok;
is($cluster->cli(1, 'ROLE')->[0], 'slave', 'it comes back as a replica');
$cluster->node(2)->pause;
ok(!eval { $cluster->node(2)->connect(timeout => 0.2)->call('PING'); 1 }, 'a paused node says nothing');
$cluster->node(2)->resume;
is($cluster->cli(2, 'PING'), 'PONG', '... until it goes on');

# ---- a single server

my $single = Zaris::Single->new(socket => 1, password => 'secret');
is($single->call('SET', "a\0b", "\xff"), 'OK', 'a single server with a password');
is($single->call('GET', "a\0b"), "\xff", 'bytes come back as they were');
like($single->connect(auth => [ 'default', 'secret' ])->call('PING'), qr/PONG/, 'a connection of its own');
ok(!eval { Zaris::Resp->new(port => $single->port, auth => ['wrong']); 1 }, 'a wrong password dies');
is(Zaris::Resp->new(path => $single->{path}, auth => ['secret'])->call('PING'), 'PONG', 'its unix socket');

# ---- scripted nodes

my $fake = Zaris::FakeNode->new(
	'GET' => "\$3\r\nfoo\r\n",
	'GET a' => [ "-LOADING soon\r\n", ":1\r\n" ],
	'GET slow' => { delay => 0.2, bytes => "+late\r\n", split => 2 },
	'GET half' => { bytes => "\$5\r\nab", close => 1 },
	'GET mute' => { hang => 1 },
	'ECHO' => sub { my ($self, $name, $word) = @_; return Zaris::FakeNode::bulk($word) });
my $resp = Zaris::Resp->new(port => $fake->port, timeout => 2);
is($resp->call('get', 'x'), 'foo', 'scripted bytes');
is_deeply([ map { "$_" } $resp->pipeline(([ 'GET', 'a' ]) x 3) ], [ 'LOADING soon', 1, 1 ], 'answers in turn');
is($resp->call('ECHO', "a b\0%\n"), "a b\0%\n", 'scripted code');
my $start = time();
is($resp->call('GET', 'slow'), 'late', 'a late answer in pieces');
ok(time() - $start >= 0.2, '... is late');
ok(!eval { $resp->call('GET', 'half'); 1 } && $@ =~ /closed/, 'half an answer, then the end');
ok(!eval { Zaris::Resp->new(port => $fake->port, timeout => 0.2)->call('GET', 'mute'); 1 } && $@ =~ /timed out/,
	'no answer');
is_deeply([ $fake->commands('ECHO') ], [ [ 'ECHO', "a b\0%\n" ] ], 'it records what it heard');
is($fake->count('GET'), 7, '... and counts');
is($fake->connections, 2, '... connections too');
$resp = Zaris::Resp->new(port => $fake->port);
$fake->script('GET' => "+new\r\n");
is($resp->call('GET', 'x'), 'new', 'new orders');
is($resp->call('CLUSTER', 'SLOTS')->[0][1], 16383, 'it owns all slots');
is(scalar(@{ $resp->call('CLUSTER', 'SHARDS') }), 1, '... of one shard');
like($resp->call('NOSUCH'), qr/^ERR unknown command/, 'an unknown command');

$single = Zaris::Single->new;
my $lossy = Zaris::FakeNode->new(
	single => 1,
	'*' => { forward => $single->port },
	'SET' => { forward => $single->port, bytes => '', close => 1 });
$resp = Zaris::Resp->new(port => $lossy->port);
ok(!eval { $resp->call('SET', 'k', 'v'); 1 }, 'an answer is lost');
is(Zaris::Resp->new(port => $lossy->port)->call('GET', 'k'), 'v', '... but the write was applied');

my $hole = Zaris::FakeNode::black_hole();
ok(!eval { Zaris::Resp->new(port => $hole, timeout => 0.2); 1 }, 'a black hole');

done_testing();
