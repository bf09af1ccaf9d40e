# Nodes that answer nonsense: a clear error with its SQLSTATE, no crash, and the session goes on.  And every way in
# which a redirect or a map can name an address.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Zaris::FakeNode;
use Zaris::Pg;
use Zaris::Process;
use Zaris::Single;

my $pg = Zaris::Pg->new;
my $real = Zaris::Single->new;
$real->call('SET', 'k', 'v');
$pg->server('good', url => 'redis://127.0.0.1:' . $real->port);
$pg->table('good_item', 'id text, value text', key => '<id>');
my $session = $pg->session;
my $pid = $session->pid;

sub table_on
{
	my ($fake, %option) = @_;
	$pg->sql('DROP SERVER IF EXISTS fake CASCADE');
	$pg->server('fake', url => $fake->url, backoff => '5ms', connect_timeout => '1s', request_timeout => '5s', %option);
	$pg->table('item', 'id text, value text', key => '<id>');
	return;
}

sub goes_on
{
	my ($name) = @_;
	is($session->run("SELECT value FROM good_item WHERE id = 'k'")->{out}, 'v', "$name: the session goes on");
	return;
}

# ---- replies

my %garbage = (
	'no RESP at all' => "HTTP/1.1 400 Bad Request\r\n\r\n",
	'a hostile bulk length' => "\$99999999999999999999\r\n",
	'a large bulk length' => "\$2147483647\r\n",
	'a negative bulk length' => "\$-7\r\n",
	'a hostile array length' => "*4294967295\r\n",
	'deep nesting' => '*1' . ("\r\n*1" x 200) . "\r\n",
	'a length that is none' => "\$abc\r\n",
	'a bulk without its end' => "\$2\r\nabXX",
	'an endless line' => '+' . ('x' x 2_000_000),
	'a slot out of bounds' => "-MOVED 99999 127.0.0.1:1\r\n",
	'a negative slot' => "-MOVED -1 127.0.0.1:1\r\n",
	'a slot of 2^31' => "-MOVED 2147483648 127.0.0.1:1\r\n",
	'a slot that is none' => "-MOVED x 127.0.0.1:1\r\n",
	'a port out of bounds' => "-MOVED 1 127.0.0.1:65536\r\n",
	'a port of 40 digits' => '-MOVED 1 127.0.0.1:' . ('9' x 40) . "\r\n",
	'no address' => "-MOVED 1\r\n",
	'ASK out of bounds' => "-ASK 99999 127.0.0.1:1\r\n",
	'an integer for a value' => ":42\r\n",
	'an array for a value' => "*1\r\n\$1\r\nx\r\n",
	'a status for a value' => "+OK\r\n");
for my $what (sort keys %garbage)
{
	my $fake = Zaris::FakeNode->new('GET' => $garbage{$what});
	table_on($fake);
	my $result = $session->run("SELECT value FROM item WHERE id = 'a'", 20);
	is($result->{sqlstate}, '08P01', "$what is a protocol error") or diag $result->{stderr};
	$fake->script('GET' => "\$2\r\nok\r\n");
	is($session->run("SELECT value FROM item WHERE id = 'a'", 20)->{out}, 'ok', '... and the next answer counts');
	$fake->stop;
}
goes_on('after garbage');

# Half a reply, then the end: the connection broke, which is no protocol error.
my $fake = Zaris::FakeNode->new('GET' => { bytes => "\$5\r\nab", close => 1 });
table_on($fake);
is($session->run("SELECT value FROM item WHERE id = 'a'", 20)->{sqlstate}, '08006', 'half a reply is a lost connection');
is($fake->count('GET'), 3, '... tried three times');
$fake = Zaris::FakeNode->new('GET' => { bytes => "\$5\r\nhello\r\n", split => 1 });
table_on($fake);
is($session->run("SELECT value FROM item WHERE id = 'a'", 20)->{out}, 'hello', 'a reply byte by byte');

# More replies than were asked for must never answer the next question.
$fake = Zaris::FakeNode->new('GET' => "\$1\r\n1\r\n\$5\r\nextra\r\n", 'GET b' => "\$1\r\n2\r\n");
table_on($fake);
$session->run("SELECT value FROM item WHERE id = 'a'", 20);
my $result = $session->run("SELECT value FROM item WHERE id = 'b'", 20);
isnt($result->{out}, 'extra', 'a reply nobody asked for is never an answer');
goes_on('after a reply too many');

# nil and empty are two things (I9)
$fake = Zaris::FakeNode->new('GET nil' => "\$-1\r\n", 'GET empty' => "\$0\r\n\r\n", 'GET null' => "_\r\n");
table_on($fake);
is($session->run("SELECT '[' || value || ']' FROM item WHERE id = 'nil'")->{out}, '', 'nil is no row');
is($session->run("SELECT '[' || value || ']' FROM item WHERE id = 'empty'")->{out}, '[]', 'empty is a value');
is($session->run("SELECT '[' || value || ']' FROM item WHERE id = 'null'")->{out}, '', 'RESP3 null is no row');

# ---- scans

my %scans = (
	'an integer' => ":1\r\n",
	'one element' => "*1\r\n\$1\r\n0\r\n",
	'a cursor that is none' => "*2\r\n\$3\r\nxyz\r\n*0\r\n",
	'a cursor of 40 digits' => "*2\r\n\$40\r\n" . ('9' x 40) . "\r\n*0\r\n",
	'a key that is none' => "*2\r\n\$1\r\n0\r\n*1\r\n:5\r\n");
for my $what (sort keys %scans)
{
	table_on(Zaris::FakeNode->new('SCAN' => $scans{$what}));
	my $found = $session->run('SELECT count(*) FROM item', 20);
	is($found->{sqlstate}, '08P01', "SCAN answers $what") or diag "$found->{out} $found->{stderr}";
}
goes_on('after bad scans');

# ---- maps

my %maps = (
	'no shard' => [ "*0\r\n", '08006' ],
	'an integer' => [ ":5\r\n", '08P01' ],
	'shards that are none' => [ "*1\r\n:5\r\n", '08P01' ],
	'garbage' => [ "?????\r\n", '08P01' ]);
for my $what (sort keys %maps)
{
	my ($bytes, $sqlstate) = @{ $maps{$what} };
	table_on(Zaris::FakeNode->new('CLUSTER SHARDS' => $bytes, 'CLUSTER SLOTS' => $bytes));
	my $found = $session->run("SELECT value FROM item WHERE id = 'a'", 30);
	is($found->{sqlstate}, $sqlstate, "a map with $what") or diag $found->{stderr};
}
goes_on('after bad maps');

# CLUSTER SLOTS where SHARDS is not known, with every way to leave the address out.
for my $host ("\$-1\r\n", "\$0\r\n\r\n", "_\r\n")
{
	my ($port) = Zaris::Process::free_ports(1);
	my $node = Zaris::FakeNode->new(
		port => $port,
		'CLUSTER SHARDS' => "-ERR unknown subcommand 'SHARDS'. Try CLUSTER HELP.\r\n",
		'CLUSTER SLOTS' => "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$host:$port\r\n\$40\r\n" . ('f' x 40) . "\r\n",
		'GET' => "\$2\r\nok\r\n");
	table_on($node);
	my $found = $session->run("SELECT value FROM item WHERE id = 'a'", 20);
	is($found->{out}, 'ok', 'CLUSTER SLOTS without a host: the host that answered') or diag $found->{stderr};
}

# ---- redirects

my $target = Zaris::FakeNode->new('GET' => "\$4\r\nhere\r\n");
my $port = $target->port;
my $slot = Zaris::Resp::slot('a');
my %moved = (
	'a host and a port' => "127.0.0.1:$port",
	'no host' => ":$port",
	'IPv6 without brackets' => "::ffff:127.0.0.1:$port",
	'a name' => "localhost:$port");
for my $what (sort keys %moved)
{
	$fake = Zaris::FakeNode->new('GET' => "-MOVED $slot $moved{$what}\r\n");
	table_on($fake);
	my $found = $session->run("SELECT value FROM item WHERE id = 'a'", 20);
	is($found->{out}, 'here', "MOVED with $what") or diag $found->{stderr};
	is($fake->count('GET'), 1, '... followed at once');
}
$fake = Zaris::FakeNode->new('GET' => "-ASK $slot 127.0.0.1:$port\r\n");
table_on($fake);
is($session->run("SELECT value FROM item WHERE id = 'a'", 20)->{out}, 'here', 'ASK');
my @heard = map { $_->[0] } $target->commands('ASKING', 'GET');
is_deeply([ @heard[ -2, -1 ] ], [ 'ASKING', 'GET' ], '... ASKING right before the command');

$fake = Zaris::FakeNode->new('GET' => [ "-MOVED $slot ?:$port\r\n", "\$2\r\nok\r\n" ]);
table_on($fake);
is($session->run("SELECT value FROM item WHERE id = 'a'", 20)->{out}, 'ok', 'MOVED to "?" is not dialled but looked up');

# Two nodes that point at each other for ever.
my ($one, $two) = Zaris::Process::free_ports(2);
my @ring = map { Zaris::FakeNode->new(port => $_->[0], 'GET' => "-MOVED $slot 127.0.0.1:$_->[1]\r\n") } [ $one, $two ], [ $two, $one ];
table_on($ring[0]);
$result = $session->run("SELECT value FROM item WHERE id = 'a'", 20);
is($result->{sqlstate}, '08006', 'an endless loop of redirects ends');
like("$result->{message} $result->{detail}", qr/Moved/, '... as Moved');
cmp_ok($ring[0]->count('GET') + $ring[1]->count('GET'), '<=', 12, '... after a bounded number of hops');
goes_on('after redirects');

# A redirect to the very node that answered (a proxy): bounded too.
my ($own) = Zaris::Process::free_ports(1);
$fake = Zaris::FakeNode->new(
	port => $own,
	'GET' => [ "-MOVED $slot 127.0.0.1:$own\r\n", "\$4\r\nself\r\n" ]);
table_on($fake);
is($session->run("SELECT value FROM item WHERE id = 'a'", 20)->{out}, 'self', 'a redirect to the node itself is tried again');

# ---- logins

$fake = Zaris::FakeNode->new('AUTH' => ":7\r\n");
table_on($fake);
$pg->sql("CREATE USER MAPPING FOR CURRENT_USER SERVER fake OPTIONS (password 'x')");
isnt($session->run("SELECT value FROM item WHERE id = 'a'", 20)->{sqlstate}, '00000', 'a strange answer to AUTH is an error');
$fake = Zaris::FakeNode->new('connect' => { bytes => "-ERR max number of clients reached\r\n", close => 1 });
table_on($fake);
is($session->run("SELECT value FROM item WHERE id = 'a'", 20)->{sqlstate}, '53300', 'a banner instead of a login');
$fake = Zaris::FakeNode->new('connect' => { bytes => "SSH-2.0-OpenSSH_9.2\r\n" });
table_on($fake);
is($session->run("SELECT value FROM item WHERE id = 'a'", 20)->{sqlstate}, '08P01', 'a server of another kind');
goes_on('at the end');
is($session->pid, $pid, 'in one and the same backend');

$session->close;
done_testing();
