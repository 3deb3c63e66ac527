use super::*;

const FREE: &str = "\
program p
  implicit none
  integer :: i
  !$unspool interval main
  !$omp parallel do schedule(dynamic) num_threads(4) &
  !$omp   private(i)
  do i = 1, 4
    call work(i)
  end do
  !$omp parallel
  !$omp single
  call work(1)
  !$omp end single
  !$omp end parallel
  !$unspool end interval
end program
";

#[test]
fn free_form_gets_its_calls() {
    let text = instrument(FREE, "p.f90", Language::FreeFortran).unwrap();
    let after = text.split("end module\n").nth(1).unwrap();
    let lines: Vec<&str> = after.lines().map(str::trim).collect();
    assert_eq!(lines[1], "use unspool_p_f90");
    let at = |wanted: &str| {
        lines
            .iter()
            .position(|line| *line == wanted)
            .unwrap_or_else(|| panic!("{wanted}\n{after}"))
    };
    assert!(at("!$omp parallel num_threads(4)") < at("!$omp do schedule(dynamic) private(i)"));
    assert!(at("!$omp end do nowait") < at("!$omp barrier"));
    assert!(text.contains("'"));
    assert_eq!(after.matches("!$omp barrier").count(), 2);
    assert_eq!(after.matches("before_func_call").count(), 2);
}

#[test]
fn constructs_that_do_not_match_are_named() {
    let broken = [
        ("!$omp parallel\n", 1, "parallel does not end"),
        ("!$omp end parallel\n", 1, "parallel ends and has not begun"),
        (
            "!$omp parallel\n!$omp single\n!$omp end parallel\n",
            3,
            "parallel ends within single, which started in line 2",
        ),
        ("!$unspool interval a\n", 1, "interval does not end"),
    ];
    for (source, line, what) in broken {
        let error = instrument(source, "x.f90", Language::FreeFortran).unwrap_err();
        assert_eq!((error.line, error.what.as_str()), (line, what));
    }
    let broken = [
        (
            "int f(void)\n{\n#pragma omp parallel\n}\n",
            4,
            "a statement is missing",
        ),
        ("void g()\n{ f(\n", 2, "a bracket is not closed"),
        (
            "void f(void) {\n#pragma unspool interval a\n}\n",
            2,
            "the interval does not end",
        ),
        (
            "#pragma unspool interval a\n",
            1,
            "an interval must stand in a function",
        ),
        (
            "#pragma unspool end interval\n",
            1,
            "an interval ends that has not begun",
        ),
    ];
    for (source, line, what) in broken {
        let error = instrument(source, "x.c", Language::C).unwrap_err();
        assert_eq!((error.line, error.what.as_str()), (line, what));
    }
}

#[test]
fn c_gets_its_calls_around_statements_of_every_kind() {
    let source = "void f(int n)\n{\n#pragma omp parallel for default(none) shared(n) \\\n    reduction(+ : s)\n    for (int i = 0; i < n; i++)\n        if (i) { g(\"}\"); } else h();\n#pragma omp critical(name)\n    do { k(); } while (0);\n}\n";
    let text = instrument(source, "x.c", Language::C).unwrap();
    let body = text.split("}\nvoid f").nth(1).unwrap();
    assert!(
        body.contains("#pragma omp parallel default(none) shared(n) shared(unspool_h, s)"),
        "{body}"
    );
    assert!(
        body.contains("#pragma omp for reduction(+ : s) nowait"),
        "{body}"
    );
    assert!(body.contains("else { dbg_before_func_call(unspool_h + 5); h(); dbg_after_func_call(unspool_h + 5); }\ndbg_before_barrier"), "{body}");
    assert!(
        body.contains("} while (0); } dbg_critical_event_end"),
        "{body}"
    );
    assert!(
        text.contains("*type=critical*file=x.c*line1=7*line2=8*name1=name**"),
        "{text}"
    );
}

/// A source in which each `<omp …>` is written as a line, or as an operator.
fn with_pragmas(source: &str, as_operator: bool) -> String {
    let written = |directive: &str| match as_operator {
        true => format!("_Pragma ( \"{directive}\" )"),
        false => format!("\n#pragma {directive}\n"),
    };
    let mut text = String::new();
    for part in source.split('<') {
        match part.split_once('>') {
            Some((directive, rest)) => text += &(written(directive) + rest),
            None => text += part,
        }
    }
    text
}

#[test]
fn pragmas_as_operators_are_seen() {
    let source = "void f(void) { <omp parallel default(none)> { <omp for nowait> for (;;) g(); \
                  <omp barrier> <omp task default(none)> { g(); } <omp taskyield> h(); \
                  <omp critical(name)> g(); if (1) <omp flush> <omp taskloop> for (;;) h(); \
                  <unspool interval one> h(); <unspool end interval> } }";
    let calls = |as_operator| {
        let text = with_pragmas(source, as_operator);
        let text = instrument(&text, "x.c", Language::C).unwrap();
        let body = text.split("}\nvoid f").nth(1).unwrap().to_owned();
        let words = body.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let calls = words
            .filter(|word| word.starts_with("dbg_"))
            .map(str::to_owned);
        (calls.collect::<Vec<_>>(), body)
    };
    let (lines, operators) = (calls(false), calls(true));
    assert_eq!(lines.0, operators.0, "{}", operators.1);
    assert!(operators.0.contains(&"dbg_before_interval".to_owned()));
    // Nothing but the directive stands in its line.
    let pragmas = operators
        .1
        .lines()
        .filter(|line| line.starts_with("#pragma"));
    let mut swallowing = pragmas.filter(|line| line.contains(['{', ';']));
    assert_eq!(swallowing.next(), None);
    assert!(
        operators.1.contains("#pragma omp for  nowait\n"),
        "{}",
        operators.1
    );
    let task = "#pragma omp task default(none) shared(unspool_h)\n";
    assert!(operators.1.contains(task), "{}", operators.1);
    // What is no operator of this kind stays: a name that begins so, and text in a literal.
    for kept in [
        "_Pragmatic(\"omp barrier\");",
        "s = \"_Pragma(\\\"omp barrier\\\")\";",
    ] {
        let text = instrument(&format!("void f(void) {{ {kept} }}"), "x.c", Language::C).unwrap();
        let body = text.split("}\nvoid f").nth(1).unwrap();
        assert!(
            body.contains(kept) && !body.contains("dbg_before_barrier"),
            "{body}"
        );
    }
}

/// The instrumented lines of a free-form subroutine with this body, without its module.
fn subroutine(body: &str) -> Vec<String> {
    let source = format!("subroutine s(a)\n{body}\nend subroutine\n");
    let text = instrument(&source, "s.f90", Language::FreeFortran).unwrap();
    let after = text.split("end module\n").nth(1).unwrap();
    after.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn procedures_begin_after_what_they_specify() {
    let position = |lines: &[String], wanted: &str| {
        lines
            .iter()
            .position(|line| line.starts_with(wanted))
            .unwrap_or_else(|| panic!("{wanted}\n{lines:#?}"))
    };
    // What stands last before the body, and first in it.
    let cases = [
        ("integer :: i\ni = 1", "integer :: i", "i = 1"),
        ("real a(3)\na(1) = 1", "real a(3)", "a(1) = 1"),
        (
            "real x, f\nf(x) = x + 1\na = f(1.0)",
            "f(x) = x + 1",
            "a = f(1.0)",
        ),
        (
            "type t\ninteger k\nend type\ndata = 1",
            "end type",
            "data = 1",
        ),
        ("target(1) = 5", "use", "target(1) = 5"),
        (
            "!$omp threadprivate(x)\n!$omp parallel\n!$omp end parallel",
            "!$omp threadprivate",
            "call dbg_before_parallel",
        ),
        (
            "interface\nsubroutine g(x)\nend subroutine\nend interface\nreturn",
            "end interface",
            "return",
        ),
    ];
    for (body, last, first) in cases {
        let lines = subroutine(body);
        let begin = position(&lines, "call dbg_func_begin");
        assert!(position(&lines, last) < begin, "{lines:#?}");
        assert!(begin < position(&lines, first), "{lines:#?}");
        assert!(position(&lines, "call dbg_func_end") > begin, "{lines:#?}");
    }
}

#[test]
fn pure_procedures_and_vector_loops_stay_as_they_are() {
    let source = "pure subroutine s(a)\ninteger, intent(out) :: a\na = 1\nreturn\nend subroutine\n";
    let text = instrument(source, "s.f90", Language::FreeFortran).unwrap();
    let after = text.split("end module\n").nth(1).unwrap();
    assert!(!after.contains("dbg_"), "{after}");
    let lines = subroutine("!$omp simd\ndo i = 1, 3\ncall f(i)\nend do");
    let calls = lines.iter().filter(|line| line.contains("dbg_")).count();
    assert_eq!(calls, 2, "{lines:#?}");
    let source = "constexpr int f(int x) { return x; }\nint main() { return f(1); }\n";
    let text = instrument(source, "s.cpp", Language::C).unwrap();
    assert!(text.ends_with(source), "{text}");
}

#[test]
fn loops_are_told_from_what_looks_like_one() {
    let loops = |body: &str| {
        let lines = subroutine(body);
        lines
            .iter()
            .filter(|line| line.contains("dbg_begsl"))
            .count()
    };
    assert_eq!(loops("do i = 1, 3\nx = i\nend do"), 1);
    assert_eq!(loops("do i = 1, 3\ndo j = 1, 3\nx = i\nend do\nend do"), 1);
    assert_eq!(
        loops("do 10 i = 1, 3\ndo 10 j = 1, 3\n10 x = i\ndo\nexit\nend do"),
        2
    );
    assert_eq!(loops("do while (x < 3)\nx = x + 1\nenddo"), 1);
    assert_eq!(loops("do = 3\ndouble = 4\ndo1 = 5"), 0);
    assert_eq!(
        loops("do i = 1, 3; x = i; end do\ndo i = 1, 3\nx = i\nend do"),
        1
    );
}

proptest::proptest! {
    #[test]
    fn any_text_is_refused_or_instrumented(text in "[a-z(){}#;:=!$&*'\"\\n 0-9]{0,200}") {
        for language in [Language::FreeFortran, Language::FixedFortran, Language::C] {
            let _ = instrument(&text, "x", language);
        }
    }

    #[test]
    fn any_mix_of_words_is_refused_or_instrumented(
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..60)
    ) {
        let text = words.join(" ");
        for language in [Language::FreeFortran, Language::FixedFortran, Language::C] {
            let _ = instrument(&text, "x", language);
        }
    }
}

const WORDS: &[&str] = &[
    "\n!$omp parallel",
    "_Pragma(\"omp parallel\")",
    "_Pragma(\"",
    "\n!$omp do",
    "\n!$omp end do",
    "\n!$omp atomic",
    "\n!$omp single",
    "\n!$omp end single",
    "\n!$omp end parallel",
    "\n!$omp task",
    "\n!$omp target",
    "\n",
    "\nend",
    "\ndo i = 1, 2",
    "\nend do",
    "\nsubroutine s",
    "\ncall f(x)",
    "\ncontains",
    "\nreturn",
    "\n10 continue",
    "\ndo 10 i = 1, 2",
    "\nif (x) call f",
    "\n#pragma omp parallel",
    "\n#pragma omp for",
    "\n#pragma omp atomic",
    "\n#pragma unspool interval a",
    "for (;;)",
    "{",
    "}",
    "(",
    ")",
    "do",
    "while",
    "if",
    "else",
    "x;",
    "f(x);",
    "case 1:",
    "try",
    "catch",
    "\"",
    "'",
    "\n#pragma unspool end interval",
    "int f()",
    "struct s",
    "=",
    ";",
    "é",
];
