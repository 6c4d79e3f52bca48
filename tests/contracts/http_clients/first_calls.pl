# Makes each call with a client of its own: `base (path body)...`; prints one line a call, status and body.
use strict;
use warnings;
use HTTP::Tiny;

my ($base, @words) = @ARGV;
while (my ($path, $body) = splice(@words, 0, 2)) {
    my $options = { headers => { 'content-type' => 'application/json' }, content => $body };
    my $answer = HTTP::Tiny->new->request('POST', $base . $path, $options);
    my $text = $answer->{content};
    $text =~ s/\s+$//;
    print "$answer->{status} $text\n";
}
