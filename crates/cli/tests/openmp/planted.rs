//! Losses of known size must be found, within three percent.

use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use serde_json::Value;

use crate::attempts::{Plan, attempt};
use crate::command::{Compiler, Verdict, build, check, json_and_talk, programs, trial};

/// How far a figure may be from what was planted.
const TOLERANCE: f64 = 0.03;
/// And a share, in percent of the whole, in words: on a disturbed machine all threads sleep longer.
const SHARE_TOLERANCE: f64 = 6.0;

/// One test for each program and compiler.
pub(crate) fn trials() -> Vec<Trial> {
    let mut sources: Vec<PathBuf> = std::fs::read_dir(programs())
        .expect("the folder of programs is there")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| Expectation::read(path).is_some())
        .collect();
    sources.sort();
    let compilers = |source: &Path| {
        let all = match source.extension() {
            Some(extension) if extension == "f90" => [Compiler::Gfortran, Compiler::Flang],
            _ => [Compiler::Gcc, Compiler::Clang],
        };
        let only = Expectation::read(source).and_then(|expected| expected.only);
        let is_wanted = move |compiler: &Compiler| match &only {
            Some(only) => only == compiler.command(),
            None => true,
        };
        all.into_iter().filter(is_wanted).collect::<Vec<_>>()
    };
    let pairs = sources.iter().flat_map(|source| {
        compilers(source)
            .into_iter()
            .map(move |compiler| (source.clone(), compiler))
    });
    pairs
        .map(|(source, compiler)| {
            let stem = source
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            trial(
                format!("planted::{stem}::{}", compiler.command()),
                move || test(&source, compiler),
            )
        })
        .collect()
}

/// What the first comment of a program says.
#[derive(Debug)]
pub(crate) struct Expectation {
    planted: Vec<(String, f64)>,
    productive: f64,
    threads: u64,
    /// The only compiler that plants it.
    only: Option<String>,
    /// What sentences of the diagnosis contain, with the compiler if it is not for all.
    diagnosis: Vec<(Option<String>, String)>,
    /// How long useful work on the critical path takes.
    critical_path: Option<f64>,
}

impl Expectation {
    /// Nothing where the program plants nothing.
    pub(crate) fn read(source: &Path) -> Option<Expectation> {
        let text = std::fs::read_to_string(source).ok()?;
        let mut planted = Vec::new();
        let (mut productive, mut threads) = (None, None);
        let (mut only, mut diagnosis, mut critical_path) = (None, Vec::new(), None);
        let comment = text.lines().map_while(|line| {
            line.strip_prefix("//")
                .or_else(|| line.strip_prefix('!'))
                .map(str::trim)
        });
        for (key, value) in comment.filter_map(|line| line.split_once(": ")) {
            match key {
                "planted" => {
                    let (class, seconds) = value.split_once(' ')?;
                    planted.push((class.to_owned(), seconds.parse().ok()?));
                }
                "productive" => productive = value.parse().ok(),
                "threads" => threads = value.parse().ok(),
                "only" => only = Some(value.to_owned()),
                "critical path" => critical_path = value.parse().ok(),
                _ => {
                    if let Some(compiler) = key.strip_prefix("diagnosis") {
                        let compiler = compiler.strip_prefix(' ').map(str::to_owned);
                        diagnosis.push((compiler, value.to_owned()));
                    }
                }
            }
        }
        Some(Expectation {
            planted,
            productive: productive?,
            threads: threads?,
            only,
            diagnosis,
            critical_path,
        })
    }
}

impl Expectation {
    /// How long the program takes with its losses: each thread's time is work or lost.
    pub(crate) fn plan(&self) -> Plan {
        let losses: f64 = self.planted.iter().map(|(_, seconds)| seconds).sum();
        Plan {
            elapsed: (losses + self.productive) / self.threads as f64,
            ..self.plan_without()
        }
    }

    /// And without: the same work, well divided.
    fn plan_without(&self) -> Plan {
        let threads = self.threads as f64;
        Plan {
            elapsed: self.productive / threads,
            work: self.productive,
            threads,
        }
    }
}

fn test(source: &Path, compiler: Compiler) -> Result<(), Verdict> {
    let program = build(source, compiler, &[])?;
    let program = program.to_string_lossy().into_owned();
    let expected = Expectation::read(source)
        .ok_or_else(|| Verdict::Wrong("its comment cannot be read".to_owned()))?;
    let run = |word: &'static str| {
        let program = program.clone();
        move || {
            let (report, talk) = json_and_talk(&[&program, word])?;
            conserves(&report)?;
            Ok((report, talk))
        }
    };
    let sentences = expected.sentences(compiler);
    attempt(expected.plan(), run("with"), |report, slack| {
        matches(report, &expected, slack)?;
        says(report, &sentences)
    })?;
    attempt(expected.plan_without(), run("without"), |report, slack| {
        lacks(report, &expected, slack)?;
        let lost: f64 = expected.planted.iter().map(|(_, seconds)| seconds).sum();
        let little = 0.1 * lost / expected.threads as f64 + slack;
        says_not(report, &sentences, little)
    })
}

fn number(value: &Value, key: &str) -> Result<f64, Verdict> {
    value[key]
        .as_f64()
        .ok_or_else(|| Verdict::Wrong(format!("no number is called {key}")))
}

/// Productive, lost and idle time are the total, for each thread and in sum.
fn conserves(report: &Value) -> Result<(), Verdict> {
    let parts = |value: &Value| -> Result<f64, Verdict> {
        Ok(number(value, "productive")? + number(value, "lost")? + number(value, "idle")?)
    };
    let near = |sum: f64, whole: f64| {
        check((sum - whole).abs() < 1e-6, || {
            format!("{sum} s are accounted for, of {whole} s")
        })
    };
    near(parts(report)?, number(report, "total")?)?;
    let execution = number(report, "execution_time")?;
    for thread in report["threads"].as_array().into_iter().flatten() {
        near(parts(thread)?, execution)?;
        let classes = thread["losses"].as_object().into_iter().flatten();
        let lost: f64 = classes.filter_map(|(_, seconds)| seconds.as_f64()).sum();
        near(lost, number(thread, "lost")?)?;
    }
    Ok(())
}

/// What was planted is there, and nothing else of that size.
fn matches(report: &Value, expected: &Expectation, slack: f64) -> Result<(), Verdict> {
    let threads = report["processors"].as_u64();
    check(threads == Some(expected.threads), || {
        format!("{threads:?} threads are reported")
    })?;
    let within = |name: &str, found: f64, planted: f64| {
        check(
            (found - planted).abs() <= TOLERANCE * planted + slack,
            || {
                format!(
                    "{name}: {found} s are reported, {planted} s were planted; all: {}",
                    report["losses"]
                )
            },
        )
    };
    within(
        "productive",
        number(report, "productive")?,
        expected.productive,
    )?;
    for (class, seconds) in &expected.planted {
        within(class, number(&report["losses"], class)?, *seconds)?;
    }
    let smallest = expected
        .planted
        .iter()
        .map(|(_, seconds)| *seconds)
        .fold(f64::MAX, f64::min);
    for (class, found) in report["losses"].as_object().into_iter().flatten() {
        let planted = expected.planted.iter().any(|(one, _)| one == class);
        let found = found.as_f64().unwrap_or(f64::MAX);
        check(planted || found < 0.2 * smallest + slack, || {
            format!("{class}: {found} s were not planted")
        })?;
    }
    let path = number(&report["processes"][0], "critical_path_useful")?;
    match expected.critical_path {
        Some(planted) => within("critical path", path, planted),
        None => Ok(()),
    }
}

impl Expectation {
    /// What the diagnosis is to say of a program of this compiler's.
    fn sentences(&self, compiler: Compiler) -> Vec<&str> {
        let is_for =
            |whom: &Option<String>| whom.as_ref().is_none_or(|one| one == compiler.command());
        let sentences = self.diagnosis.iter().filter(|(whom, _)| is_for(whom));
        sentences.map(|(_, sentence)| sentence.as_str()).collect()
    }
}

/// The first sentence of the diagnosis that has these words.
fn diagnosed<'report>(report: &'report Value, wanted: &str) -> Option<&'report str> {
    let sentences = report["diagnosis"].as_array().into_iter().flatten();
    sentences
        .filter_map(Value::as_str)
        .find(|sentence| has_words(sentence, wanted))
}

/// Whether a sentence has some words, in which a share (`57 %`) may differ as other figures may.
fn has_words(sentence: &str, wanted: &str) -> bool {
    let share = |text: &str| text.split(' ').next_back()?.parse::<f64>().ok();
    let Some((before, after)) = wanted.split_once(" %") else {
        return sentence.contains(wanted);
    };
    let Some(planted) = share(before) else {
        return sentence.contains(wanted);
    };
    let words = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let mut places = sentence.match_indices(" %");
    places.any(|(place, percent)| {
        let found = &sentence[..place];
        let is_close = share(found).is_some_and(|found| (found - planted).abs() <= SHARE_TOLERANCE);
        is_close
            && sentence[place + percent.len()..].starts_with(after)
            && found
                .trim_end_matches(|letter: char| letter.is_ascii_digit())
                .ends_with(words)
    })
}

fn says(report: &Value, sentences: &[&str]) -> Result<(), Verdict> {
    sentences.iter().try_for_each(|wanted| {
        check(diagnosed(report, wanted).is_some(), || {
            format!("{wanted:?} is not in {}", report["diagnosis"])
        })
    })
}

/// Nothing of the kind is said, or only of far less time than was planted: to start a program
/// takes time too.
fn says_not(report: &Value, sentences: &[&str], little: f64) -> Result<(), Verdict> {
    let seconds = |sentence: &str| -> f64 {
        let words: Vec<&str> = sentence.split_whitespace().collect();
        let pairs = words
            .windows(2)
            .filter(|pair| pair[1].trim_end_matches(';') == "s");
        let figures = pairs.filter_map(|pair| pair[0].parse::<f64>().ok());
        figures.fold(0.0, f64::max)
    };
    sentences.iter().try_for_each(|wanted| {
        let found = diagnosed(report, wanted);
        check(found.is_none_or(|found| seconds(found) < little), || {
            format!("without cause: {found:?}")
        })
    })
}

/// Without the plant, there is no such loss: what found it before did not find it anyway.
fn lacks(report: &Value, expected: &Expectation, slack: f64) -> Result<(), Verdict> {
    for (class, seconds) in &expected.planted {
        let found = number(&report["losses"], class)?;
        check(found < TOLERANCE * seconds + slack, || {
            format!("{class}: {found} s are reported where none were planted")
        })?;
    }
    Ok(())
}
