//! The merge against small known answers, against a stable sort of random traces, and
//! against damage.

use std::io::Read;

use proptest::prelude::*;

use super::*;

fn merge(text: &str, keep_time: bool) -> (String, TextMergeSummary) {
    let mut output = Vec::new();
    let summary = merge_text(text.as_bytes(), &mut output, keep_time).unwrap();
    (String::from_utf8(output).unwrap(), summary)
}

#[test]
fn threads_are_interleaved_by_time_and_syncs_are_omitted() {
    let text = "1\t0\ttr\n2\t0\tm\tr\t8\t4\n9\t0\ttf\n3\t1\ttr\n4\t1\tthread_sync\n5\t1\tm\tw\t8\t4\n6\t1\ttf\n";
    // Everything arrives in one piece, so thread 1 is known before anything is written.
    assert_eq!(
        merge(text, false).0,
        "0\ttr\n0\tm\tr\t8\t4\n1\ttr\n1\tm\tw\t8\t4\n1\ttf\n0\ttf\n"
    );
    let (kept, summary) = merge(text, true);
    assert_eq!(kept.lines().next(), Some("1\t0\ttr"));
    assert_eq!(kept.lines().count(), 6);
    assert_eq!(
        (summary.lines, summary.thread_syncs, summary.late_lines),
        (7, 1, 0)
    );
}

#[test]
fn damage_is_counted_and_the_rest_is_merged() {
    let (text, summary) = merge(
        "2\t0\ttr\nrubbish\n\n1\t1\ttr\n18446744073709551616\t0\tm\n7\t0\n3\t0\ttf",
        false,
    );
    assert_eq!(text, "1\ttr\n0\ttr\n0\ttf\n");
    assert_eq!(
        (summary.unreadable_lines, summary.first_unreadable_line),
        (4, Some(2))
    );
}

#[test]
fn an_endless_line_does_not_fill_the_memory() {
    let mut text = vec![b'x'; 3 * LONGEST_LINE];
    text.extend_from_slice(b"\n1\t0\ttr\n");
    let mut output = Vec::new();
    let summary = merge_text(text.as_slice(), &mut output, false).unwrap();
    assert_eq!(output, b"0\ttr\n");
    assert!(summary.unreadable_lines > 0);
}

#[test]
fn what_comes_too_late_is_counted() {
    // Read in small pieces, thread 1 shows itself only after thread 0 has been written.
    let first = "5\t0\ttr\n6\t0\ttf\n".as_bytes();
    let second = "1\t1\ttr\n".as_bytes();
    let mut output = Vec::new();
    let summary = merge_text(InPieces(vec![second, first]), &mut output, false).unwrap();
    assert_eq!(output, b"0\ttr\n0\ttf\n1\ttr\n");
    assert_eq!(summary.late_lines, 1);
}

#[test]
fn memory_is_bounded_by_the_distance_of_the_clocks() {
    // Two threads take turns writing a hundred lines each.
    let mut text = String::new();
    for round in 0..2000 {
        for thread in 0..2 {
            for step in 0..100 {
                text += &format!("{}\t{thread}\tm\tr\t1234567\t8\n", round * 100 + step + 1);
            }
        }
    }
    let mut output = Vec::new();
    let summary = merge_text(text.as_bytes(), &mut output, false).unwrap();
    assert_eq!(summary.late_lines, 0);
    assert!(
        text.len() > 8_000_000 && summary.most_bytes_held < 200_000,
        "{summary:?}"
    );
}

/// A source that gives one piece at each read.
struct InPieces<'a>(Vec<&'a [u8]>);

impl Read for InPieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(piece) = self.0.pop() else {
            return Ok(0);
        };
        let taken = piece.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&piece[..taken]);
        if taken < piece.len() {
            self.0.push(&piece[taken..]);
        }
        Ok(taken)
    }
}

/// Threads with rising times, and which of them writes its next lines at each step.
fn traces() -> impl Strategy<Value = String> {
    let steps = prop::collection::vec((0_usize..4, 1_usize..20, 0_u64..5), 1..200);
    steps.prop_map(|steps| {
        // All threads start at once, so that none can come late.
        let mut text: String = (0..4).map(|thread| format!("0\t{thread}\ttr\n")).collect();
        let mut clocks = [0; 4];
        for (thread, lines, advance) in steps {
            for line in 0..lines {
                clocks[thread] += advance;
                text += &format!("{}\t{thread}\tm\tr\t{line}\t8\n", clocks[thread]);
            }
        }
        text
    })
}

proptest! {
    #[test]
    fn agrees_with_a_stable_sort_however_the_pipe_cuts_it(
        text in traces(),
        cuts in prop::collection::vec(1_usize..400, 1..50),
    ) {
        let mut sorted: Vec<&str> = text.lines().collect();
        sorted.sort_by_key(|line| line.split('\t').next().unwrap().parse::<u64>().unwrap());
        let mut pieces = Vec::new();
        let mut rest = text.as_bytes();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at(rest.len().min(*cut));
            pieces.push(piece);
            rest = after;
        }
        pieces.reverse();
        let mut output = Vec::new();
        let summary = merge_text(InPieces(pieces), &mut output, true).unwrap();
        let merged = String::from_utf8(output).unwrap();
        prop_assert_eq!(merged.lines().collect::<Vec<_>>(), sorted);
        prop_assert_eq!(summary.late_lines, 0);
    }
}
