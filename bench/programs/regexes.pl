# Regular expressions and hashes over a text. Arguments: the text's file, number of rounds.
use strict;
use warnings;

my ($file, $rounds) = @ARGV;
open my $input, '<', $file or die "$file: $!\n";
my @lines = <$input>;
close $input;

my ($matches, $sum, %words) = (0, 0);
for my $round (1 .. $rounds) {
    for my $line (@lines) {
        $matches++ while $line =~ /\b([b-df-hj-np-tv-z]+[aeiou]){2,}\b/g;
        $matches += 3 if $line =~ /(\w)\w*\1\w* \w*(?:st|ng|ra)\b/;
        $matches += 7 if $line =~ /^(?:[^,.]*[,.]){3,}.*?(\d+)/;
        $sum = ($sum * 31 + $1 + $round) % 1000000007 if $line =~ /(\d+)\s*$/;
        (my $changed = $line) =~ s/([aeiou])([^aeiou\s])/$2$1/g;
        $words{lc $_}++ for $changed =~ /(\w{6,})/g;
    }
}
my @most = (sort { $words{$b} <=> $words{$a} || $a cmp $b } keys %words)[0 .. 4];
print "regexes $rounds $matches $sum ", scalar(keys %words), " @most\n";
