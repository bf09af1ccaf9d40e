# Zaris::Single: a server that is no cluster, with everything that Zaris::Node can do.
#
#	my $single = Zaris::Single->new;							# TCP on loopback
#	my $single = Zaris::Single->new(password => 'secret', socket => 1, args => [ '--maxmemory', '10mb' ]);
#	$single->url				redis://127.0.0.1:PORT
#	$single->socket_url			unix:///.../socket, with socket => 1
#	$single->counted(sub { ... })	the calls of each command that the code caused, as Zaris::Cluster does
package Zaris::Single;

use strict;
use warnings;

use parent 'Zaris::Node';

use Zaris::Cluster;
use Zaris::Process;

sub new
{
	my ($class, %option) = @_;
	my $socket = delete $option{socket};
	my ($port) = Zaris::Process::free_ports(1);
	my $self = $class->SUPER::new(
		port => $port,
		directory => Zaris::Process::directory('single'),
		$socket ? (path => Zaris::Process::short_directory() . '/socket') : (),
		%option);
	return $self->launch->wait_until_up;
}

sub url { return "redis://127.0.0.1:$_[0]{port}" }
sub socket_url { return "unix://$_[0]{path}" }

sub counted
{
	my ($self, $code) = @_;
	return Zaris::Cluster::calls_during([$self], $code);
}

1;
