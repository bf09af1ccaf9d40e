# Zaris::FakeNode: a node that says what a real one will not say on demand.
#
#	my $fake = Zaris::FakeNode->new(
#		'GET' => "\$3\r\nfoo\r\n",							# raw bytes, for every GET
#		'GET a' => "-MOVED 15495 127.0.0.1:1\r\n",			# more words win over fewer
#		'SET' => [ "+OK\r\n", "-LOADING soon\r\n" ],		# one after the other, then the last again and again
#		'EVALSHA' => { bytes => "\$5\r\nab", close => 1 },	# half a reply, then the end
#		'HGET' => sub { my ($fake, @command) = @_; ... return an answer },
#		'*' => { forward => $real->port });					# everything else, from a real node
#
# An answer is bytes, a list of answers for one call after the other, code that returns an answer, or a hash:
#	bytes		what is sent
#	delay		seconds to wait first (this connection only)
#	split		send in pieces of so many bytes, a moment between them
#	close		close the connection afterwards; without bytes: instead of an answer
#	hang		never answer on this connection again, and keep it open
#	forward		send the command to the real node on this port, and its reply on; with `bytes`, send those instead
#				of the reply (a write that was applied, but whose answer is lost: { forward => P, close => 1, bytes => '' })
# 'connect' => an answer that is given at once to whoever connects (a banner, close, hang).
#
# What is not scripted gets what a healthy node that owns all slots would say to CLUSTER SHARDS, SLOTS, NODES, INFO,
# MYID, ROLE, AUTH, CLIENT, PING, ASKING, READONLY, SELECT; -ERR unknown command for the rest.  Options, in lower case:
#	slots => [ [ 0, 8191 ] ]		what it owns: all
#	others => [ [ $port, 8192, 16383 ], ... ]	further primaries in the map
#	single => 1						no cluster: CLUSTER is refused, ROLE says primary
#	role => 'replica'				with single: ROLE says replica
#	port => $port					a port that Zaris::Process::free_ports gave
#
#	$fake->port, $fake->url
#	$fake->commands				[ 'GET', 'foo' ], ... as they came (not those of other names: commands('GET', 'EVAL'))
#	$fake->count('GET')
#	$fake->connections			how many were accepted so far
#	$fake->script('GET' => "...")	from now on (no code references); returns when it holds
#	$fake->stop
#
#	my $port = Zaris::FakeNode::black_hole();	a port where connecting never ends
#	Zaris::FakeNode::bulk('foo')				"$3\r\nfoo\r\n"
package Zaris::FakeNode;

use strict;
use warnings;

use Carp;
use Digest::SHA qw(sha1_hex);
use IO::Select;
use IO::Socket::INET;
use Storable ();
use Time::HiRes qw(sleep time);
use Zaris::Process;
use Zaris::Resp;

use constant ID => 'f' x 40;

sub new
{
	my ($class, %arguments) = @_;
	my @options = qw(slots others single role port);
	my $self = bless { slots => [ [ 0, 16383 ] ], others => [] }, $class;
	for my $name (keys %arguments)
	{
		if (grep { $_ eq $name } @options) { $self->{$name} = $arguments{$name} }
		else { $self->{script}{ normalized($name) } = $arguments{$name} }
	}
	$self->{port} //= (Zaris::Process::free_ports(1))[0];
	$self->{listener} = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		LocalPort => $self->{port},
		Listen => 64,
		ReuseAddr => 1) or croak "could not listen on port $self->{port}: $!";
	my $directory = Zaris::Process::short_directory();
	$self->{record} = "$directory/commands";
	$self->{orders} = "$directory/orders";
	$self->{pid} = Zaris::Process::child(sub { $self->_serve });
	close(delete $self->{listener});    # the child's from now on
	return $self;
}

sub port { return $_[0]{port} }
sub url { return "redis://127.0.0.1:$_[0]{port}" }
sub bulk { return '$' . length($_[0]) . "\r\n$_[0]\r\n" }
sub array { return '*' . @_ . "\r\n" . join('', @_) }

sub stop
{
	my ($self) = @_;
	Zaris::Process::finish($self->{pid});
	return;
}

# A full backlog: the kernel drops the next SYN, as a host behind a filter would.
sub black_hole
{
	my ($port) = Zaris::Process::free_ports(1);
	my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 0, ReuseAddr => 1)
	  or croak "could not listen on port $port: $!";
	listen($listener, 0);
	our @held;
	push @held, $listener,
	  map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Blocking => 0) } 1 .. 4;
	return $port;
}

# ---- what it heard

sub _records
{
	my ($self) = @_;
	open(my $file, '<:raw', $self->{record}) or return ();
	my @lines = <$file>;
	pop @lines if @lines && $lines[-1] !~ /\n\z/;    # still being written
	return map { chomp; [ map { s/%(..)/chr(hex($1))/ger } split(/ /, $_, -1) ] } @lines;
}

sub commands
{
	my ($self, @names) = @_;
	my %wanted = map { uc($_) => 1 } @names;
	return grep { $_->[0] ne '' && (!@names || $wanted{ uc($_->[0]) }) } $self->_records;
}

sub count
{
	my ($self, $name) = @_;
	return scalar(my @commands = $self->commands($name));
}

sub connections
{
	my ($self) = @_;
	return scalar(grep { $_->[0] eq '' } $self->_records);
}

# A connection is recorded as an empty command.
sub _note
{
	my ($self, @words) = @_;
	syswrite($self->{record_file}, join(' ', map { s/([^\x21-\x24\x26-\x7e])/sprintf('%%%02x', ord($1))/ger } @words) . "\n");
	return;
}

# ---- new orders while it runs: a file, taken when the child sees SIGHUP and removes it

sub script
{
	my ($self, %script) = @_;
	my %normalized = map { normalized($_) => $script{$_} } keys %script;
	Storable::nstore(\%normalized, "$self->{orders}.new");
	rename("$self->{orders}.new", $self->{orders});
	kill('HUP', $self->{pid});
	Zaris::Process::wait_until('the fake node takes its orders', sub { !-e $self->{orders} }, 5);
	return;
}

sub _take_orders
{
	my ($self) = @_;
	return unless -e $self->{orders};
	my $script = Storable::retrieve($self->{orders});
	@{ $self->{script} }{ keys %$script } = values %$script;
	unlink($self->{orders});
	return;
}

# ---- the child

sub _serve
{
	my ($self) = @_;
	local $SIG{HUP} = sub { };    # wakes the select
	local $SIG{PIPE} = 'IGNORE';
	open($self->{record_file}, '>>:raw', $self->{record}) or die "$self->{record}: $!";
	my $select = IO::Select->new($self->{listener});
	my %connections;
	while (1)
	{
		$self->_take_orders;
		my @due = sort { $a <=> $b } map { $_->{due} // () } values %connections;
		my $wait = @due ? $due[0] - time() : 0.5;
		for my $socket ($select->can_read($wait < 0 ? 0 : $wait > 0.5 ? 0.5 : $wait))
		{
			if ($socket == $self->{listener})
			{
				my $new = $socket->accept or next;
				$self->_note('');
				$select->add($new);
				my @greeting = exists $self->{script}{CONNECT} ? ['CONNECT'] : ();
				$connections{$new} = { socket => $new, input => '', queue => \@greeting };
			}
			else
			{
				my $connection = $connections{$socket};
				my $n = sysread($socket, $connection->{input}, 65536, length $connection->{input});
				$connection->{over} = 1 unless $n;
				push @{ $connection->{queue} }, $self->_commands_of($connection);
			}
		}
		for my $connection (values %connections)
		{
			$self->_go_on($connection);
			next unless $connection->{over};
			$select->remove($connection->{socket});
			delete $connections{ $connection->{socket} };
			close($connection->{socket});
		}
	}
	return;
}

# Complete commands at the front of the input.
sub _commands_of
{
	my ($self, $connection) = @_;
	my @commands;
	while ($connection->{input} =~ /\A\*(\d+)\r\n/)
	{
		my ($left, $at, @words) = ($1, $+[0]);
		while ($left > 0 && substr($connection->{input}, $at) =~ /\A\$(\d+)\r\n/)
		{
			last if length($connection->{input}) < $at + $+[0] + $1 + 2;
			push @words, substr($connection->{input}, $at + $+[0], $1);
			$at += $+[0] + $1 + 2;
			$left--;
		}
		last if $left;
		substr($connection->{input}, 0, $at) = '';
		$self->_note(@words);
		push @commands, \@words;
	}
	return @commands;
}

# Answer in order, until an answer has to wait for its time.
sub _go_on
{
	my ($self, $connection) = @_;
	return if $connection->{hangs};
	while (!$connection->{over} && @{ $connection->{queue} })
	{
		return if defined $connection->{due} && time() < $connection->{due};
		my $command = $connection->{queue}[0];
		my $answer = delete $connection->{waiting} // $self->_answer(@$command);
		if ($answer->{delay} && !defined $connection->{due})
		{
			$connection->{due} = time() + $answer->{delay};
			$connection->{waiting} = $answer;
			return;
		}
		shift @{ $connection->{queue} };
		delete $connection->{due};
		$self->_give($connection, $answer, @$command);
		return if $connection->{hangs};
	}
	return;
}

sub _give
{
	my ($self, $connection, $answer, @command) = @_;
	if ($answer->{hang})
	{
		$connection->{hangs} = 1;
		return;
	}
	my $bytes = $answer->{bytes};
	if ($answer->{forward})
	{
		my $reply = $self->_forward($connection, $answer->{forward}, @command);
		$bytes //= $reply;
	}
	my $size = $answer->{split} || length($bytes // '') || 1;
	for (my $at = 0; $at < length($bytes // ''); $at += $size)
	{
		$self->_write($connection, substr($bytes, $at, $size));
		sleep(0.002) if $answer->{split};
	}
	$connection->{over} = 1 if $answer->{close};
	return;
}

sub _write
{
	my ($self, $connection, $bytes) = @_;
	while (length $bytes)
	{
		my $n = syswrite($connection->{socket}, $bytes);
		return $connection->{over} = 1 unless $n;
		substr($bytes, 0, $n) = '';
	}
	return;
}

# One real connection for each of ours, since ASKING, AUTH and the like belong to a connection.
sub _forward
{
	my ($self, $connection, $port, @command) = @_;
	my $real = $connection->{real} //= Zaris::Resp->new(port => $port);
	$real->send_bytes(Zaris::Resp::encode(@command));
	return $real->raw_reply;
}

sub normalized
{
	my ($name) = @_;
	my ($command, $rest) = split(/ /, $name, 2);
	return join(' ', uc($command), $rest // ());
}

# The answer to a command, as a hash: the script's, else the usual one (not if everything is forwarded), else '*'.
sub _answer
{
	my ($self, @command) = @_;
	my @words = (uc($command[0]), @command[ 1 .. $#command ]);
	my $rest = $self->{script}{'*'};
	my $name = $self->_scripted(@words);
	my $answer = defined $name ? $self->_turn($name) : undef;
	$answer //= $self->_usual(@words) unless ref $rest eq 'HASH' && $rest->{forward};
	$answer //= $self->_turn('*') if defined $rest;
	$answer //= "-ERR unknown command '$command[0]'\r\n";
	$answer = $answer->($self, @command) if ref $answer eq 'CODE';
	return ref $answer ? $answer : { bytes => $answer };
}

# The name in the script that fits best: the one with the most words.
sub _scripted
{
	my ($self, @words) = @_;
	for my $n (reverse 0 .. $#words)
	{
		my $name = join(' ', @words[ 0 .. $n ]);
		return $name if exists $self->{script}{$name};
		return uc($name) if exists $self->{script}{ uc($name) };
	}
	return undef;
}

# Of a list, the next answer.
sub _turn
{
	my ($self, $name) = @_;
	my $answer = $self->{script}{$name};
	return $answer unless ref $answer eq 'ARRAY';
	my $turn = $self->{turn}{$name}++;
	return $answer->[ $turn < @$answer ? $turn : -1 ];
}

# What a healthy node says; undef for what is left to the script.
sub _usual
{
	my ($self, $command, @rest) = @_;
	my $subcommand = uc($rest[0] // '');
	return "+OK\r\n" if $command =~ /^(AUTH|ASKING|READONLY|READWRITE|SELECT)$/;
	return "+PONG\r\n" if $command eq 'PING';
	return $subcommand eq 'ID' ? ":1\r\n" : "+OK\r\n" if $command eq 'CLIENT';
	return bulk(sha1_hex($rest[1])) if $command eq 'SCRIPT' && $subcommand eq 'LOAD';
	return $self->_role if $command eq 'ROLE';
	return undef unless $command eq 'CLUSTER';
	return "-ERR This instance has cluster support disabled\r\n" if $self->{single};
	return $self->_shards if $subcommand eq 'SHARDS';
	return $self->_slots if $subcommand eq 'SLOTS';
	return bulk(ID) if $subcommand eq 'MYID';
	return bulk($self->_nodes) if $subcommand eq 'NODES';
	return bulk("cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n")
	  if $subcommand eq 'INFO';
	return undef;
}

sub _role
{
	my ($self) = @_;
	return array(bulk('slave'), bulk('127.0.0.1'), ":1\r\n", bulk('connected'), ":1\r\n")
	  if ($self->{role} // '') eq 'replica';
	return array(bulk('master'), ":1\r\n", array());
}

# [ port, id, [ first, last ], ... ] of each primary
sub _primaries
{
	my ($self) = @_;
	my @others = map { [ $_->[0], sprintf('%040x', $_->[0]), [ $_->[1], $_->[2] ] ] } @{ $self->{others} };
	return ([ $self->{port}, ID, @{ $self->{slots} } ], @others);
}

sub _shards
{
	my ($self) = @_;
	my @shards;
	for my $primary ($self->_primaries)
	{
		my ($port, $id, @ranges) = @$primary;
		my $node = array(
			bulk('id'), bulk($id), bulk('port'), ":$port\r\n", bulk('ip'), bulk('127.0.0.1'),
			bulk('endpoint'), bulk('127.0.0.1'), bulk('role'), bulk('master'),
			bulk('replication-offset'), ":1\r\n", bulk('health'), bulk('online'));
		push @shards, array(
			bulk('slots'), array(map { (":$_->[0]\r\n", ":$_->[1]\r\n") } @ranges), bulk('nodes'), array($node));
	}
	return array(@shards);
}

sub _slots
{
	my ($self) = @_;
	my @entries;
	for my $primary ($self->_primaries)
	{
		my ($port, $id, @ranges) = @$primary;
		my $node = array(bulk('127.0.0.1'), ":$port\r\n", bulk($id), array());
		push @entries, map { array(":$_->[0]\r\n", ":$_->[1]\r\n", $node) } @ranges;
	}
	return array(@entries);
}

sub _nodes
{
	my ($self) = @_;
	my $text = '';
	for my $primary ($self->_primaries)
	{
		my ($port, $id, @ranges) = @$primary;
		my $flags = $port == $self->{port} ? 'myself,master' : 'master';
		$text .= "$id 127.0.0.1:$port\@" . ($port + 10000) . " $flags - 0 0 1 connected";
		$text .= join('', map { " $_->[0]-$_->[1]" } @ranges) . "\n";
	}
	return $text;
}

1;
