# Zaris::Cluster: a real Redis or Valkey cluster on loopback, ready in about 2.5 seconds.
#
#	my $cluster = Zaris::Cluster->new;								# three primaries, a replica each
#	my $cluster = Zaris::Cluster->new(primaries => 3, replicas => 0, node_timeout => 500, coverage => 'yes',
#		password => 'secret', args => [ '--maxmemory', '10mb' ]);
#	my $cluster = Zaris::Cluster->launch(...);  ... something else ...;  $cluster->wait_until_up;
#
# Nodes are numbered: first the primaries (0, 1, 2), then their replicas (3 is 0's, 4 is 1's, 5 is 2's).  That is how
# they start; failovers change roles, not numbers.  primary 0 owns slots 0-5460, 1 5461-10922, 2 10923-16383.
#
#	$cluster->url, $cluster->url(1, 2)		redis://127.0.0.1:PORT,... of the primaries, or of the nodes named
#	$cluster->node($n)						a Zaris::Node: kill9, pause, resume, restart, pid, info ...
#	$cluster->cli($n, 'GET', 'foo')			a reply of that node as Zaris::Resp gives it
#	$cluster->command('SET', 'foo', 1)		sent to the owner of the first argument's slot, following redirects
#	$cluster->load({ key => value, ... })	many SETs in pipelines
#	$cluster->owner($slot)					the number of the node that owns it (asked, not remembered)
#	$cluster->key_on($n, 'prefix')			a key prefix0, prefix1 ... whose slot node $n owns
#	$cluster->move_slot($slot, $to)			properly, key by key, while clients go on
#	$cluster->mover([ slots ], %option)		does so for ever in a process of its own: a Zaris::Mover, ->stop it
#	$cluster->failover($replica, 'force')	... or 'takeover', or nothing: waits until both have changed roles
#										(force and takeover also when the old primary is gone or paused)
#	$cluster->wait_until_ok					every living node says cluster_state:ok, replicas are linked
#	$cluster->counted(sub { ... })			{ get => 1, ... }: calls of each command at the primaries meanwhile
package Zaris::Cluster;

use strict;
use warnings;

use Carp;
use List::Util qw(any first);
use Time::HiRes qw(sleep time);
use Zaris::Mover;
use Zaris::Node;
use Zaris::Process;
use Zaris::Resp;

sub new
{
	my ($class, %option) = @_;
	return $class->launch(%option)->wait_until_up;
}

sub launch
{
	my ($class, %option) = @_;
	my $self = bless {
		primaries => 3,
		replicas => 1,
		node_timeout => 1000,
		coverage => 'no',
		args => [],
		%option,
		directory => Zaris::Process::directory('cluster') }, $class;
	my $n_nodes = $self->{primaries} * (1 + $self->{replicas});
	my @ports = Zaris::Process::free_ports(2 * $n_nodes);
	$self->{ports} = [ @ports[ 0 .. $n_nodes - 1 ] ];
	$self->{bus_ports} = [ @ports[ $n_nodes .. 2 * $n_nodes - 1 ] ];
	$self->{shard_ids} = Zaris::Node::has_shard_ids($self->{server} // Zaris::Node::server());
	$self->{nodes} = [ map { $self->_make_node($_) } 0 .. $n_nodes - 1 ];
	$_->launch for @{ $self->{nodes} };
	return $self;
}

sub wait_until_up
{
	my ($self) = @_;
	$_->wait_until_up for @{ $self->{nodes} };
	return $self->wait_until_ok;
}

sub _make_node
{
	my ($self, $n) = @_;
	my $directory = "$self->{directory}/$self->{ports}[$n]";
	my $node = Zaris::Node->new(
		port => $self->{ports}[$n],
		directory => $directory,
		password => $self->{password},
		$self->{server} ? (server => $self->{server}) : (),
		args => [
			'--cluster-enabled', 'yes', '--cluster-port', $self->{bus_ports}[$n],
			'--cluster-config-file', 'nodes.conf', '--cluster-node-timeout', $self->{node_timeout},
			'--cluster-replica-validity-factor', '0', '--cluster-require-full-coverage', $self->{coverage},
			'--cluster-allow-replica-migration', 'no', @{ $self->{args} }
		]);
	$self->_write_nodes_conf($n, "$directory/nodes.conf");
	return $node;
}

# Every node begins with the finished map, so that no gossip has to be waited for.
sub _write_nodes_conf
{
	my ($self, $me, $path) = @_;
	my $primaries = $self->{primaries};
	my @lines;
	for my $n (0 .. $#{ $self->{ports} })
	{
		my $flags = $n == $me ? 'myself,' : '';
		my $shard = $n % $primaries;
		my ($first, $last) = map { int(($shard + $_) * 16384 / $primaries + 0.5) } 0, 1;
		my $role =
		  $n < $primaries
		  ? "${flags}master - 0 0 " . ($shard + 1) . " connected $first-" . ($last - 1)
		  : "${flags}slave " . $self->id($shard) . " 0 0 " . ($shard + 1) . " connected";
		my $auxiliary = $self->{shard_ids} ? sprintf(',,shard-id=%040x', $shard + 1) : '';
		push @lines, $self->id($n) . " 127.0.0.1:$self->{ports}[$n]\@$self->{bus_ports}[$n]$auxiliary $role";
	}
	open(my $file, '>', $path) or croak "could not write $path: $!";
	print $file map { "$_\n" } @lines, 'vars currentEpoch ' . scalar(@lines) . ' lastVoteEpoch 0';
	close($file);
	return;
}

sub node { return $_[0]{nodes}[ $_[1] ] }
sub port { return $_[0]{ports}[ $_[1] ] }
sub id { return sprintf('%040x', $_[0]{ports}[ $_[1] ]) }
sub slot { return Zaris::Resp::slot($_[-1]) }

sub url
{
	my ($self, @nodes) = @_;
	@nodes = 0 .. $self->{primaries} - 1 unless @nodes;
	return 'redis://' . join(',', map { "127.0.0.1:$self->{ports}[$_]" } @nodes);
}

sub cli
{
	my ($self, $n, @command) = @_;
	return $self->{nodes}[$n]->call(@command);
}

sub ask
{
	my ($self, $n, @command) = @_;
	return $self->{nodes}[$n]->ask(@command);
}

# The numbers of the nodes that run and say that they are primaries.
sub primaries
{
	my ($self) = @_;
	return grep {
		$self->{nodes}[$_]->is_running
		  && (eval { $self->cli($_, 'ROLE')->[0] } // '') eq 'master'
	} 0 .. $#{ $self->{nodes} };
}

sub node_of_port
{
	my ($self, $port) = @_;
	return first { $self->{ports}[$_] == $port } 0 .. $#{ $self->{ports} };
}

# The primary that says so of itself: others may hear of a move a moment later.  If none does, what the first one says;
# undef when the slot has no owner.
sub owner
{
	my ($self, $slot) = @_;
	my @said;
	for my $n ($self->primaries)
	{
		my $ranges = $self->cli($n, 'CLUSTER', 'SLOTS');
		next if Zaris::Resp::is_error($ranges);
		my $range = first { $_->[0] <= $slot && $slot <= $_->[1] } @$ranges;
		my $owner = $range ? $self->node_of_port($range->[2][1]) : undef;
		return $n if defined $owner && $owner == $n;
		push @said, $owner;
	}
	croak 'no primary answers' unless @said;
	return $said[0];
}

sub key_on
{
	my ($self, $n, $prefix) = @_;
	my %mine;
	for my $range (@{ $self->ask($n, 'CLUSTER', 'SLOTS') })
	{
		@mine{ $range->[0] .. $range->[1] } = () if $range->[2][1] == $self->{ports}[$n];
	}
	my $i = first { exists $mine{ Zaris::Resp::slot("$prefix$_") } } 0 .. 100_000;
	return "$prefix$i";
}

sub command
{
	my ($self, $name, $key, @rest) = @_;
	my $n = $self->owner(Zaris::Resp::slot($key));
	for (1 .. 10)
	{
		my $reply = $self->cli($n, $name, $key, @rest);
		return $reply unless Zaris::Resp::is_error($reply) && $reply =~ /^(MOVED|ASK) \d+ .*:(\d+)/;
		$n = $self->node_of_port($2);
		next if $1 eq 'MOVED';
		return ($self->{nodes}[$n]->connect->pipeline(['ASKING'], [ $name, $key, @rest ]))[1];
	}
	croak "no end of redirects for $key";
}

sub load
{
	my ($self, $values) = @_;
	my (%batch, %owner);
	my $send = sub {
		my ($n) = @_;
		my @errors = grep { Zaris::Resp::is_error($_) }
		  $self->{nodes}[$n]->connect->pipeline(splice(@{ $batch{$n} }));
		croak "port $self->{ports}[$n]: $errors[0]" if @errors;
	};
	for my $n ($self->primaries)
	{
		for my $range (@{ $self->ask($n, 'CLUSTER', 'SLOTS') })
		{
			@owner{ $range->[0] .. $range->[1] } = ($n) x 16384 if $range->[2][1] == $self->{ports}[$n];
		}
	}
	for my $key (keys %$values)
	{
		my $n = $owner{ Zaris::Resp::slot($key) };
		push @{ $batch{$n} }, [ 'SET', $key, $values->{$key} ];
		$send->($n) if @{ $batch{$n} } >= 1000;
	}
	$send->($_) for grep { @{ $batch{$_} } } keys %batch;
	return;
}

# The order that loses nothing: importing, migrating, the keys, then the target learns first that it is the owner, and
# tells all others.
#
# Only when they have heard of it are they told by command too.  A command that comes before the target's own message
# makes older messages of the target, still on their way, look as if it gave the slot back; Redis 7.0 remembers that
# and may later take the slot from its owner, and then nobody owns it.
sub move_slot
{
	my ($self, $slot, $to) = @_;
	my $from = $self->owner($slot);
	return if $from == $to;
	$self->ask($to, 'CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $self->id($from));
	$self->ask($from, 'CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $self->id($to));
	$self->migrate_keys($slot, $from, $to);
	$self->ask($to, 'CLUSTER', 'SETSLOT', $slot, 'NODE', $self->id($to));
	eval { $self->_wait_until_agreed($slot, $to, 0.5) };
	$self->_let_go($slot, $from, $to);
	for my $n (grep { $_ != $from && $_ != $to } $self->primaries)
	{
		$self->ask($n, 'CLUSTER', 'SETSLOT', $slot, 'NODE', $self->id($to));
	}
	$self->_wait_until_agreed($slot, $to, 20);
	return;
}

# A target raises its epoch above all that it has heard of.  If the next move came before everybody has heard of this
# one, two nodes could take the same epoch.
sub _wait_until_agreed
{
	my ($self, $slot, $to, $seconds) = @_;
	my $id = $self->id($to);
	my $agrees = sub {
		my ($n, $epoch) = @_;
		my ($heard, $ranges) =
		  $self->ask($n, 'CLUSTER', 'NODES') =~ /^$id \S+ \S+ \S+ \S+ \S+ (\d+) \S+ ?([^\n]*)/m;
		return $heard == $epoch && any { /^(\d+)(?:-(\d+))?$/ && $1 <= $slot && $slot <= ($2 // $1) } split(/ /, $ranges);
	};
	Zaris::Process::wait_until(
		"all primaries know that slot $slot lies on node $to",
		sub {
			my ($epoch) = $self->ask($to, 'CLUSTER', 'INFO') =~ /cluster_my_epoch:(\d+)/;
			return !grep { !$agrees->($_, $epoch) } $self->primaries;
		},
		$seconds);
	return;
}

sub migrate_keys
{
	my ($self, $slot, $from, $to) = @_;
	my @auth = defined $self->{password} ? ('AUTH', $self->{password}) : ();
	while (1)
	{
		my $keys = $self->ask($from, 'CLUSTER', 'GETKEYSINSLOT', $slot, 100);
		return unless @$keys;
		$self->ask($from, 'MIGRATE', '127.0.0.1', $self->{ports}[$to], '', 0, 5000, @auth, 'KEYS', @$keys);
	}
}

# The source refuses while it holds a key: one that was written through it just before it began to migrate.
sub _let_go
{
	my ($self, $slot, $from, $to) = @_;
	for (1 .. 50)
	{
		my $reply = $self->cli($from, 'CLUSTER', 'SETSLOT', $slot, 'NODE', $self->id($to));
		return unless Zaris::Resp::is_error($reply);
		croak "$reply" unless $reply =~ /still hold keys/;
		$self->migrate_keys($slot, $from, $to);
	}
	croak "slot $slot does not become empty";
}

sub mover
{
	my ($self, $slots, %option) = @_;
	return Zaris::Mover->new($self, $slots, %option);
}

sub failover
{
	my ($self, $replica, @how) = @_;
	my $before = $self->node_of_port($self->ask($replica, 'ROLE')->[2]);
	$self->ask($replica, 'CLUSTER', 'FAILOVER', map { uc } grep { defined } @how);
	$self->wait_until_primary($replica);
	Zaris::Process::wait_until(
		"node $before knows that it is none any more",
		sub { !$self->node($before)->is_running || $self->cli($before, 'ROLE')->[0] eq 'slave' });
	return;
}

sub wait_until_primary
{
	my ($self, $n, $seconds) = @_;
	Zaris::Process::wait_until("node $n is a primary", sub { $self->cli($n, 'ROLE')->[0] eq 'master' }, $seconds);
	return;
}

sub wait_until_ok
{
	my ($self, $seconds) = @_;
	for my $node (grep { $_->is_running } @{ $self->{nodes} })
	{
		Zaris::Process::wait_until(
			"the cluster is up, says the node on port $node->{port}",
			sub {
				return 0 unless $node->ask('CLUSTER', 'INFO') =~ /cluster_state:ok/;
				my $replication = $node->info('replication');
				return $replication->{role} eq 'master' || $replication->{master_link_status} eq 'up';
			},
			$seconds);
	}
	return $self;
}

sub counted
{
	my ($self, $code) = @_;
	return calls_during([ map { $self->{nodes}[$_] } $self->primaries ], $code);
}

# What the harness itself asks is left out.
sub calls_during
{
	my ($nodes, $code) = @_;
	my @before = map { $_->calls } @$nodes;
	$code->();
	my %calls;
	for my $i (0 .. $#$nodes)
	{
		my $after = $nodes->[$i]->calls;
		for my $name (grep { !/^(info|role|replconf|ping|psync|auth)$/ } keys %$after)
		{
			my $n = $after->{$name} - ($before[$i]{$name} // 0);
			$calls{$name} += $n if $n;
		}
	}
	return \%calls;
}

1;
