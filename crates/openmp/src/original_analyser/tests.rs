use proptest::prelude::*;

use unspool_openmp_record::original::{ContextStrings, ThreadTrace};

use super::*;

/// Traces of eight threads whose figures are those of the sample's protocol.
fn sample() -> (Vec<ThreadTrace>, ContextStrings) {
    let strings = "\
        40*type=parallel*file=ep.f*line1=10*line2=90**\n\
        40*type=omploop*file=ep.f*line1=20*line2=80**\n\
        40*type=barrier*file=ep.f*line1=80*line2=80**\n\
        40*type=critical*file=ep.f*line1=85*line2=87**\n\
        40*type=user_interval*file=ep.f*line1=1*line2=99*name1=main**\n";
    let (strings, problems) = ContextStrings::parse(strings);
    assert_eq!(problems, []);
    let threads = [8543, 8545, 8546, 8547, 8548, 8549, 8550, 8551];
    let traces = threads.iter().enumerate().map(|(index, thread)| {
        // Per thread: a region, of which 552 ms are outside the loop and synchronisation.
        let desync = if index < 2 { 19 } else { 18 };
        let critical = if index < 6 { 29 } else { 28 };
        let parallel = 552 + 5000 + desync + critical + 1;
        let master = if index == 0 { "Thread is master\n" } else { "" };
        let text = format!(
            "Trace for thread {thread}\n{master}B5:100:6451:1:6451:6451\n\
             1:100:{parallel}:1:0:0:0:0:0:0:0:0\n2:100:5000:1:0:0:0:0:0:0:0:0\n\
             3:5100:{desync}:1:0:0:0:0:0:0:0:0\n4:5200:1:1:{critical}:0:0:0:0:0:0:0\nE5\n"
        );
        let (trace, problems) = ThreadTrace::parse(&text);
        assert_eq!(problems, []);
        trace
    });
    (traces.collect(), strings)
}

#[test]
fn the_sample_protocol_comes_out() {
    let (traces, strings) = sample();
    let analysis = Analysis::new(&traces, &strings, &Selection::default());
    let text = analysis.to_string();
    let expected = "\
Protocol
Threads: 8( 8543[M] 8545 8546 8547 8548 8549 8550 8551)
Execution Time: 6451
Processors: 8
Total Time: 51608
Productive Time: 47368
Idle Time: 0
Lost Time: 4240
Insufficient Par: 3864
Parallelization Eff:0.91784(91.784 %)
Desync Time: 146
SRCs:
Src 7
Btime=5200
Dtime=1
Wait=29
Sync=0
Count=1
OMP_instance=critical
Stack:
ep.f (85:87) 8543:7 8545:6 8546:6";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("End protocol\n"));
    assert_eq!(analysis.waits, 230.0);
}

#[test]
fn what_is_left_out_does_not_count() {
    let (traces, strings) = sample();
    let without = |selection: Selection| Analysis::new(&traces, &strings, &selection);
    let no_barrier = without(Selection {
        no_events: vec![6],
        ..Selection::default()
    });
    assert_eq!(no_barrier.desynchronisation, 0.0);
    let nothing = without(Selection {
        no_intervals: vec![3],
        ..Selection::default()
    });
    assert_eq!(nothing.lost(), 0.0);
    let one = without(Selection {
        intervals: vec![3],
        ..Selection::default()
    });
    assert_eq!((one.execution, one.lost()), (6451.0, 4240.0));
    let other_master = without(Selection {
        main_thread: Some(8546),
        ..Selection::default()
    });
    assert_eq!(other_master.threads[0], 8546);
}

#[test]
fn intervals_that_are_not_there_are_known() {
    let (traces, _) = sample();
    let selection = Selection {
        intervals: vec![3, 5, 99],
        ..Selection::default()
    };
    let master = selection.master(&traces).unwrap();
    assert_eq!(master.thread, 8543);
    // 3 is an interval; 5 is an event.
    assert_eq!(selection.unknown_intervals(master), [5, 99]);
}

#[test]
fn the_readable_trace_has_the_original_layout() {
    let (traces, strings) = sample();
    let all = readable_trace(
        &traces[0],
        &Totals::of(&traces),
        &strings,
        &Selection::default(),
        None,
    );
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(
        lines[0],
        "3 user interval begins main src=ep.f(1:99) counter=1 dtime=51608(6451)"
    );
    assert_eq!(
        lines[2],
        "5 omp loop src=ep.f(20:80) counter=1 dtime=40000(5000) avgdtime=5000 maxdtime=0"
    );
    assert_eq!(
        lines.last().unwrap(),
        &"3 user interval ends main src=ep.f(1:99) counter=1 dtime=51608(6451)"
    );
    let one = readable_trace(
        &traces[0],
        &Totals::of(&traces),
        &strings,
        &Selection::default(),
        Some(5),
    );
    assert_eq!(one.lines().collect::<Vec<_>>(), [lines[2]]);
}

#[test]
fn options_have_their_rules() {
    let parse = |words: &[&str]| {
        Options::parse(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(parse(&[]).unwrap().mode, Mode::Analyse);
    let options = parse(&[
        "-no-events=1,2",
        "-intervals=3",
        "-analize",
        "-main-thread=7",
    ])
    .unwrap();
    assert_eq!(options.selection.no_events, [1, 2]);
    assert_eq!(options.selection.main_thread, Some(7));
    let made = parse(&["-make-trace", "trace.1.mtr", "event=5"])
        .unwrap()
        .mode;
    assert_eq!(
        made,
        Mode::MakeTrace {
            file: "trace.1.mtr".to_owned(),
            event: Some(5)
        }
    );
    assert_eq!(
        parse(&["-make-all-traces=run"]).unwrap().mode,
        Mode::MakeAllTraces {
            name: "run".to_owned()
        }
    );
    let broken = [
        (
            &["-analyse"][..],
            OptionsError::Unknown("-analyse".to_owned()),
        ),
        (
            &["-analize", "-make-all-traces"],
            OptionsError::TwoModes("-make-all-traces".to_owned()),
        ),
        (
            &["-analize", "-no-events=1"],
            OptionsError::TooLate("-no-events=1".to_owned()),
        ),
        (
            &["-no-events=a"],
            OptionsError::NotNumbers("-no-events=a".to_owned()),
        ),
        (&["-make-trace"], OptionsError::NoFile),
        (&["event=5"], OptionsError::EventWithoutTrace),
    ];
    for (words, problem) in broken {
        assert_eq!(parse(words), Err(problem));
    }
}

proptest! {
    #[test]
    fn no_trace_makes_the_analysis_panic(lines in "[BE0-9:. \n]{0,200}") {
        let (trace, _) = ThreadTrace::parse(&lines);
        let (strings, _) = ContextStrings::parse("9*type=barrier**");
        let _ = Analysis::new(&[trace], &strings, &Selection::default()).to_string();
    }
}
