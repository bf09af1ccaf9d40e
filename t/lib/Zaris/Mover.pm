# Zaris::Mover: a process that moves slots of a cluster to and fro until it is told to stop.
#
#	my $mover = $cluster->mover([ 42, 7000 ], pause => 0.05);		# seconds between two moves (0)
#	...
#	$mover->wait_for(20);			# until that many moves have been made since the start
#	my $moves = $mover->stop;		# ends after the move at hand; dies if a move failed
#
# Each slot travels between its owner at the start and the next primary.  A move is never left half done.
package Zaris::Mover;

use strict;
use warnings;

use Carp;
use POSIX ();
use Time::HiRes qw(sleep);
use Zaris::Process;

sub new
{
	my ($class, $cluster, $slots, %option) = @_;
	my $self = bless {
		progress => Zaris::Process::short_directory() . '/moves',
		pause => $option{pause} // 0 }, $class;
	my @primaries = $cluster->primaries;
	my %ends;
	for my $slot (@$slots)
	{
		my $home = $cluster->owner($slot);
		my ($away) = grep { $_ > $home } @primaries;
		$ends{$slot} = [ $home, $away // $primaries[0] ];
	}
	$self->{pid} = Zaris::Process::child(sub { $self->_run($cluster, $slots, \%ends) });
	return $self;
}

# In the child: one byte a move goes into the progress file.
sub _run
{
	my ($self, $cluster, $slots, $ends) = @_;
	my $stop = 0;
	local $SIG{TERM} = sub { $stop = 1 };
	open(my $progress, '>>', $self->{progress}) or die "$self->{progress}: $!";
	for (my $round = 0; ; $round++)
	{
		for my $slot (@$slots)
		{
			return if $stop;
			$cluster->move_slot($slot, $ends->{$slot}[ $round % 2 ? 0 : 1 ]);
			syswrite($progress, '.');
			sleep($self->{pause}) if $self->{pause};
		}
	}
	return;
}

sub moves
{
	my ($self) = @_;
	return -s $self->{progress} // 0;
}

sub wait_for
{
	my ($self, $moves, $seconds) = @_;
	Zaris::Process::wait_until(
		"$moves slots were moved",
		sub { $self->moves >= $moves || Zaris::Process::reap($self->{pid}) },
		$seconds // 60);
	croak 'the mover ended before its time' if $self->moves < $moves;
	return;
}

sub stop
{
	my ($self) = @_;
	croak 'the mover ended before its time' if Zaris::Process::reap($self->{pid});
	kill('TERM', $self->{pid});
	croak 'the mover does not stop' unless Zaris::Process::reap($self->{pid}, 30);
	croak 'the mover failed' if $?;
	return $self->moves;
}

1;
