# What a user sees while slots move and nodes fail: nothing, within the budget; no lost and no doubled write.
#
# Each loop is counted by the server's own books at the end, not by what the client believes.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Zaris::Cluster;
use Zaris::Pg;
use Zaris::Process;

my $cluster = Zaris::Cluster->launch(node_timeout => 1000);
my $pg = Zaris::Pg->new;
$cluster->wait_until_up;
$pg->server('kv', url => $cluster->url);
$pg->table('counter', 'id int, n int', key => 'counter:<id>');
$pg->table('number', 'id int, value int', key => 'number:<id>');

# ---- optimistic concurrency: 4 x 200 increments end at 800

sub increments
{
	my ($id, $name) = @_;
	$cluster->command('SET', "counter:$id", 0);
	my $said = $pg->pgbench(
		"UPDATE counter SET n = n + 1 WHERE id = $id;\n",
		clients => 4,
		transactions => 200,
		tries => 10_000);
	like($said, qr{number of transactions actually processed: 800/800}, "$name: every transaction succeeded");
	is($cluster->command('GET', "counter:$id"), 800, "$name: none was lost");
	return $said;
}

like(increments(1, '4 sessions'), qr/retried/, '... and there were conflicts to retry');

my $mover = $cluster->mover([ $cluster->slot('counter:2') ]);
$mover->wait_for(2);
my $before = $mover->moves;
increments(2, '4 sessions while the slot moves');
cmp_ok($mover->stop, '>', $before, '... and it did move meanwhile');

# ---- complete scans: 50 runs over 20,000 keys while slots move

$cluster->load({ map { ("number:$_" => $_) } 1 .. 20_000 });
my @slots = map { $cluster->slot("number:$_") } 1 .. 12;
$mover = $cluster->mover(\@slots);
$mover->wait_for(2);
$before = $mover->moves;
my $session = $pg->session;
my @wrong;
for my $run (1 .. 50)
{
	my $result = $session->run('SELECT count(*), sum(value) FROM number');
	push @wrong, "run $run: $result->{out} $result->{stderr}" unless $result->{out} eq '20000|200010000';
}
is_deeply(\@wrong, [], 'count and sum over 20,000 keys are right in each of 50 runs while slots move');
@wrong = ();
for my $run (1 .. 20)
{
	my $result = $session->run('SELECT count(*) FROM number');
	push @wrong, "run $run: $result->{out} $result->{stderr}" unless $result->{out} eq '20000';
}
is_deeply(\@wrong, [], '... and so is a count that fetches no value');
my $ids = join(',', 1 .. 1000);
@wrong = grep { $_->{out} ne '1000|500500' } map { $session->run("SELECT count(*), sum(value) FROM number WHERE id IN ($ids)") } 1 .. 20;
is_deeply([ map { "$_->{out} $_->{stderr}" } @wrong ], [], '... and lookups of many keys');
cmp_ok($mover->stop, '>', $before + 20, '... and slots did move meanwhile');
$session->close;

# ---- a new owner: CLUSTER FAILOVER under a loop of reads and conditional writes over all shards

$pg->sql("ALTER SERVER kv OPTIONS (ADD max_attempts '60', ADD backoff '100ms')");
$pg->sql('TRUNCATE counter');
$pg->sql('INSERT INTO counter SELECT g, 0 FROM generate_series(1, 60) g');
my $failovers = Zaris::Process::child(
	sub {
		for my $replica (3, 4, 5)
		{
			$cluster->failover($replica);
			$cluster->wait_until_ok;
		}
	});
my $said = '';
my $rounds = 0;
do
{
	$said .= $pg->pgbench(
		"\\set id random(1, 60)\nSELECT n FROM counter WHERE id = :id;\nUPDATE counter SET n = n + 1 WHERE id = :id;\n",
		clients => 4,
		transactions => 250,
		tries => 10_000);
	$rounds++;
} until Zaris::Process::reap($failovers) || $rounds >= 200;
is($?, 0, 'three failovers happened');
unlike($said, qr/ERROR|aborted/, 'nobody saw an error over CLUSTER FAILOVER');
is($pg->sql('SELECT sum(n) FROM counter'), $rounds * 1000, 'no acknowledged write was lost, none was done twice');
is_deeply([ sort { $a <=> $b } $cluster->primaries ], [ 3, 4, 5 ], '... and the replicas are the primaries now');

# ---- a dead primary: reads go on

$session = $pg->session;
is($session->run('SELECT count(*), sum(value) FROM number')->{out}, '20000|200010000', 'all shards before the kill');
my $victim = 3;
my $there = $cluster->key_on($victim, 'number:1');
my ($id) = $there =~ /(\d+)\z/;
my $default = $pg->session;
$pg->sql("CREATE SERVER kv_default FOREIGN DATA WRAPPER zaris_fdw OPTIONS (url '" . $cluster->url(3, 4, 5) . "')");
$pg->table('number_default', 'id int, value int', key => 'number:<id>', server => 'kv_default');
is($default->run("SELECT value FROM number_default WHERE id = $id")->{out}, $id, 'the key is on the node to die');
$cluster->node($victim)->kill9;

my $failed = $default->run("SELECT value FROM number_default WHERE id = $id");
is($failed->{sqlstate}, '08006', 'with the defaults, a dead primary is an error before the election is over');
like($failed->{detail}, qr/3 attempts/, '... that says how often it was tried');
like($failed->{detail}, qr/127\.0\.0\.1:\d+/, '... and where');
cmp_ok($failed->{seconds}, '<', 5, '... within the budget');

my @errors;
for my $round (1 .. 20)
{
	my $result = $session->run("SELECT value FROM number WHERE id = $id");
	push @errors, "$result->{out} $result->{stderr}" unless $result->{out} eq $id;
	$result = $session->run('SELECT count(*), sum(value) FROM number');
	push @errors, "$result->{out} $result->{stderr}" unless $result->{out} eq '20000|200010000';
}
is_deeply(\@errors, [], 'reads see no error over a killed primary when the budget outlasts the election');
is($default->run("SELECT value FROM number_default WHERE id = $id")->{out}, $id,
	'the session that had the error reads from the new primary');
is($pg->sql("UPDATE number SET value = -1 WHERE id = $id RETURNING value"), -1, 'and it can be written');
$_->close for $session, $default;

done_testing();
