# A node that says nothing (SIGSTOP) must not hold a backend: statement_timeout, pg_cancel_backend and
# pg_terminate_backend act at once, wherever the wait is, and the next statement of the session gets its own answer.
#
# Where the wait is: connecting (a port whose backlog is full), logging in (a node that accepts and is stopped), the
# reply (stopped after the login), backoff (nobody listens, a large backoff), the fetch of the map.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Zaris::FakeNode;
use Zaris::Pg;
use Zaris::Process;
use Zaris::Single;

# Far below the 60 s that the waits would last, far above what a busy machine needs.
use constant AT_ONCE => 5;

my $node = Zaris::Single->new;
my $pg = Zaris::Pg->new;
my $hole = Zaris::FakeNode::black_hole();
my $mute = Zaris::FakeNode->new(single => 1, 'CLIENT' => { hang => 1 });
my $mapless = Zaris::FakeNode->new(single => 1, 'CLUSTER' => { hang => 1 });
my ($nobody) = Zaris::Process::free_ports(1);

my %url = (
	reply => 'redis://127.0.0.1:' . $node->port,
	connect => "redis://127.0.0.1:$hole",
	login => $mute->url,
	map => $mapless->url,
	backoff => "redis://127.0.0.1:$nobody");
for my $where (sort keys %url)
{
	my %slow = (connect_timeout => '60s', request_timeout => '60s', map_refresh_wait => '60s');
	%slow = (%slow, max_attempts => 1000, backoff => '60s') if $where eq 'backoff';
	$pg->server($where, url => $url{$where}, %slow);
	$pg->table("t_$where", 'id text, value text', key => '<id>');
}
$node->call('SET', "k$_", "value $_") for 1 .. 3;

# What is asked while the wait lasts, and what must come afterwards.
sub interrupted
{
	my ($where, $how, $session, $stop) = @_;
	my $name = "$how in $where";
	my $pid = $session->pid;
	$session->run("SET statement_timeout = 300") if $how eq 'statement_timeout';
	if ($where eq 'reply')
	{
		is($session->run('SELECT value FROM t_reply WHERE id = \'k1\'')->{out}, 'value 1', "$name: connected");
		$node->pause;
	}
	$session->start("SELECT value FROM t_$where WHERE id = 'k2'");
	Zaris::Process::wait_until(
		"$name waits",
		sub {
			$session->is_done
			  || $pg->sql("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid") eq 'Extension';
		});
	$stop->($pid);
	my $result = $session->finish(AT_ONCE);
	$node->resume;
	return $result;
}

for my $where (sort keys %url)
{
	my $session = $pg->session;
	my $result = interrupted($where, 'statement_timeout', $session, sub { });
	is($result->{sqlstate}, '57014', "statement_timeout in $where");
	like($result->{message}, qr/statement timeout/, '... says so');
	$session->run('RESET statement_timeout');
	is($session->run('SELECT value FROM t_reply WHERE id = \'k3\'')->{out}, 'value 3',
		'... and the next statement gets its own answer');

	$result = interrupted($where, 'cancel', $session, sub { $pg->sql("SELECT pg_cancel_backend($_[0])") });
	is($result->{sqlstate}, '57014', "pg_cancel_backend in $where");
	like($result->{message}, qr/user request/, '... says so');
	is($session->run('SELECT string_agg(value, \',\' ORDER BY id) FROM t_reply WHERE id IN (\'k1\', \'k3\')')->{out},
		'value 1,value 3', '... and the next statement gets its own answer');

	$result = interrupted($where, 'terminate', $session, sub { $pg->sql("SELECT pg_terminate_backend($_[0])") });
	is($result->{sqlstate}, '57P01', "pg_terminate_backend in $where");
	$session->close;
}

# ---- a scan and a write wait in the same way

my $session = $pg->session;
$session->run("SET statement_timeout = 300");
is($session->run('SELECT count(*) FROM t_reply')->{out}, 3, 'a scan');
for my $statement (
	'SELECT count(*) FROM t_reply',
	'SELECT sum(length(value)) FROM t_reply',
	"INSERT INTO t_reply VALUES ('new', 'x')",
	"UPDATE t_reply SET value = 'y' WHERE id = 'k1'",
	"UPDATE t_reply SET value = value || '.'",
	"DELETE FROM t_reply WHERE id = 'k1'")
{
	$node->pause;
	is($session->run($statement, AT_ONCE)->{sqlstate}, '57014', "statement_timeout: $statement");
	$node->resume;
	is($session->run("SELECT value FROM t_reply WHERE id = 'k3'")->{out}, 'value 3', '... and the next statement is served');
}

# ---- request_timeout is ours: 08006, and 08007 for a write whose answer never came

$session->run('SET statement_timeout = 0');
$pg->server('short', url => $url{reply}, request_timeout => '300ms', connect_timeout => '60s');
$pg->table('t_short', 'id text, value text', key => '<id>');
is($session->run("SELECT value FROM t_short WHERE id = 'k3'")->{out}, 'value 3', 'connected');
$node->pause;
my $result = $session->run("SELECT value FROM t_short WHERE id = 'k3'", AT_ONCE);
is($result->{sqlstate}, '08006', 'request_timeout while reading');
$node->resume;
is($session->run("SELECT value FROM t_short WHERE id = 'k3'")->{out}, 'value 3', 'connected again');
$node->pause;
$result = $session->run("INSERT INTO t_short VALUES ('unknown', 'x')", AT_ONCE);
is($result->{sqlstate}, '08007', 'request_timeout after a write was sent: its outcome is unknown');
like($result->{hint}, qr/\S/, '... with a hint');
$node->resume;

# ---- a cursor that its reader leaves alone is no wait

$node->call('SET', "page:$_", $_) for 1 .. 50;
$pg->table('t_page', 'id int, value int', key => 'page:<id>', fetch_size => 10, server => 'short');
$session->run('BEGIN; DECLARE c CURSOR FOR SELECT id, value FROM t_page');
my @seen = split(/\n/, $session->run('FETCH 5 FROM c')->{out});
$session->run('SELECT pg_sleep(0.6)');
$result = $session->run('FETCH ALL FROM c');
is($result->{sqlstate}, '00000', 'a pause between two FETCHes longer than request_timeout is no error');
is(@seen + split(/\n/, $result->{out}), 50, '... and no row is missing');
$session->run('COMMIT');

# ---- nothing leaks

my $pid = $session->pid;
my $descriptors = sub { my @open = glob("/proc/$pid/fd/*"); return scalar @open };
$session->run("SET statement_timeout = 20");
$node->pause;
$session->run("SELECT value FROM t_reply WHERE id = 'k1'", AT_ONCE) for 1 .. 3;
my $before = $descriptors->();
$session->run("SELECT value FROM t_reply WHERE id = 'k1'", AT_ONCE) for 1 .. 100;
cmp_ok($descriptors->(), '<=', $before + 2, 'a hundred timeouts leave no descriptor behind');
$node->resume;
$session->run('RESET statement_timeout');
is($session->run("SELECT value FROM t_reply WHERE id = 'k3'")->{out}, 'value 3', 'and the session goes on');
$session->close;

done_testing();
