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
    let text = instrument(FREE, "p.f90", Language::FreeFortran, &LeftOut::default()).unwrap();
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
        let error =
            instrument(source, "x.f90", Language::FreeFortran, &LeftOut::default()).unwrap_err();
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
        let error = instrument(source, "x.c", Language::C, &LeftOut::default()).unwrap_err();
        assert_eq!((error.line, error.what.as_str()), (line, what));
    }
}

#[test]
fn c_gets_its_calls_around_statements_of_every_kind() {
    let source = "void f(int n)\n{\n#pragma omp parallel for default(none) shared(n) \\\n    reduction(+ : s)\n    for (int i = 0; i < n; i++)\n        if (i) { g(\"}\"); } else h();\n#pragma omp critical(name)\n    do { k(); } while (0);\n}\n";
    let text = instrument(source, "x.c", Language::C, &LeftOut::default()).unwrap();
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
        let text = instrument(&text, "x.c", Language::C, &LeftOut::default()).unwrap();
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
        let text = instrument(
            &format!("void f(void) {{ {kept} }}"),
            "x.c",
            Language::C,
            &LeftOut::default(),
        )
        .unwrap();
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
    let text = instrument(&source, "s.f90", Language::FreeFortran, &LeftOut::default()).unwrap();
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
        // Without a call it would be no event.
        let lines = subroutine(&format!("{body}\ncall other()"));
        let begin = position(&lines, "call dbg_func_begin");
        assert!(position(&lines, last) < begin, "{lines:#?}");
        assert!(begin < position(&lines, first), "{lines:#?}");
        assert!(position(&lines, "call dbg_func_end") > begin, "{lines:#?}");
    }
}

#[test]
fn pure_procedures_and_vector_loops_stay_as_they_are() {
    let source = "pure subroutine s(a)\ninteger, intent(out) :: a\na = 1\nreturn\nend subroutine\n";
    let text = instrument(source, "s.f90", Language::FreeFortran, &LeftOut::default()).unwrap();
    let after = text.split("end module\n").nth(1).unwrap();
    assert!(!after.contains("dbg_"), "{after}");
    let lines = subroutine("!$omp simd\ndo i = 1, 3\ncall f(i)\nend do");
    let calls = lines.iter().filter(|line| line.contains("dbg_")).count();
    assert_eq!(calls, 2, "{lines:#?}");
    let source = "constexpr int f(int x) { return x; }\nint main() { return f(1); }\n";
    let text = instrument(source, "s.cpp", Language::C, &LeftOut::default()).unwrap();
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
            let _ = instrument(&text, "x", language, &LeftOut::default());
        }
    }

    #[test]
    fn any_mix_of_words_is_refused_or_instrumented(
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..60)
    ) {
        let text = words.join(" ");
        for language in [Language::FreeFortran, Language::FixedFortran, Language::C] {
            let _ = instrument(&text, "x", language, &LeftOut::default());
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

/// The names in events of a kind, in an instrumented source.
fn named(source: &str, language: Language, kind: &str) -> Vec<String> {
    let text = instrument(source, "x", language, &LeftOut::default()).unwrap();
    let kind = format!("*type={kind}*");
    let name = |line: &str| {
        let (_, rest) = line.split_once(&kind)?;
        let (_, name) = rest.split_once("*name1=")?;
        Some(name.split('*').next()?.to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[test]
fn macros_and_what_compilers_have_instructions_for_are_no_calls() {
    let source = "\
#define max(a, b) ((a) > (b) ? (a) : (b))
#  define\tSWAP(a, b) { double t = a; a = b; b = t; }
#define LIMIT (3)
#define limit2(x) \\
    (x)
void f(double *x) {
    double y, z;
    y = max(y, z);
    SWAP(y, z);
    y = limit2(z);
    y = sqrt(z);
    y = fabsf(z);
    y = std::min(y, z);
    y = ::log(z);
    y = table.log(z);
    y = space::sqrt(z);
    y = maximum(y, z);
    work(x);
    LIMIT;
}
";
    let events = named(source, Language::C, "func_call");
    assert_eq!(events, ["log", "sqrt", "maximum", "work"]);
    // Without the definition it may be a function.
    let undefined = source.replacen("#define max", "#undef max\n//", 1);
    assert!(named(&undefined, Language::C, "func_call").contains(&"max".to_owned()));
}

#[test]
fn what_is_left_out_is_no_event_and_nothing_else_is() {
    let c = "\
void small(int *x) { other(x)->y = 1; }
void f(int *x) {
    for (int i = 0; i < 3; i++)
        small(x);
    omp_set_lock(&lock);
    large(x);
    omp_unset_lock(&lock);
#pragma omp barrier
}
";
    let fortran = "\
subroutine Small(x)
  real x(:)
  x = x + 1
end subroutine
subroutine f(x)
  do i = 1, 3
    call small(x)
  end do
  call omp_set_lock(lock)
  call large(x)
  call omp_unset_lock(lock)
!$omp barrier
end subroutine
";
    let kinds = |source: &str, language, left_out: &LeftOut| {
        let text = instrument(source, "x", language, left_out).unwrap();
        ["func_call", "function", "seqloop", "barrier"]
            .map(|kind| text.matches(&format!("*type={kind}*")).count())
    };
    let left_out = |change: fn(&mut LeftOut)| {
        let mut left_out = LeftOut::default();
        change(&mut left_out);
        left_out
    };
    let choices: [(LeftOut, [usize; 4]); 5] = [
        (LeftOut::default(), [4, 2, 1, 1]),
        (left_out(|it| it.calls = true), [2, 2, 1, 1]),
        (left_out(|it| it.functions = true), [4, 0, 1, 1]),
        (left_out(|it| it.loops = true), [4, 2, 0, 1]),
        (
            left_out(|it| it.names = ["small".to_owned()].into()),
            [3, 1, 1, 1],
        ),
    ];
    for (left_out, expected) in choices {
        assert_eq!(kinds(c, Language::C, &left_out), expected, "{left_out:?}");
        let found = kinds(fortran, Language::FreeFortran, &left_out);
        assert_eq!(found, expected, "{left_out:?}");
    }
    // C tells apart what Fortran does not.
    let other = left_out(|it| it.names = ["SMALL".to_owned()].into());
    assert_eq!(kinds(c, Language::C, &other), [4, 2, 1, 1]);
    assert_eq!(kinds(fortran, Language::FreeFortran, &other), [3, 1, 1, 1]);
}

#[test]
fn procedures_that_are_over_at_once_are_no_events() {
    let c = "\
static double next(double *seed) { *seed = fmod(*seed * 16807.0, 2147483647.0); return *seed; }
double twice(double *seed) { if (next(seed) > 1) return next(seed); return (double)2; }
void fill(double *x) { for (int i = 0; i < 9; i++) x[i] = twice(x); }
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
void asks(void) { other(); }
int jumps(int x) { again: if (--x) goto again; return x; }
void meets(void) {
#pragma omp barrier
}
struct a { int get() { return 1; } int size() { return 2; } };
struct b { int get() { while (wait()); return 1; } };
void user(double *x) { x[0] = next(x); x[1] = get(); x[2] = other(); }
";
    let events = named(c, Language::C, "function");
    let long = [
        "fill", "fib", "asks", "jumps", "meets", "get", "get", "user",
    ];
    assert_eq!(events, long);
    // `get` is short in one place only.
    assert_eq!(
        named(c, Language::C, "func_call"),
        ["other", "get", "other"]
    );

    let fortran = "\
double precision function randlc(x, a)
  double precision x, a
  integer(8) :: n
  parameter (r23 = 0.5d0 ** 23)
  n = a
  x = x * n * r23
  randlc = x
end function
subroutine scales(x, n)
  real x(n)
  x = 2 * x
end subroutine
subroutine of_common()
  common /data/ u
  u = 0
end subroutine
subroutine repeats(n)
  integer n
  do while (n > 0)
    n = n - 1
  end do
end subroutine
subroutine calls(n)
  integer n
  if (n > 0) call calls(n - 1)
end subroutine
subroutine meets()
  !$omp barrier
end subroutine
subroutine writes(n)
  integer n
  write (*, *) n
end subroutine
subroutine step(n)
  integer, intent(inout) :: n
  if (n > 3) n = n - 1
end subroutine
subroutine holds(n)
  integer n
  n = 0
contains
  subroutine inner()
    n = 1
  end subroutine
end subroutine
subroutine user(n)
  call step(n)
  call calls(n)
end subroutine
";
    let events = named(fortran, Language::FreeFortran, "function");
    let long = [
        "scales",
        "of_common",
        "repeats",
        "calls",
        "meets",
        "writes",
        "holds",
        "inner",
        "user",
    ];
    assert_eq!(events, long);
    let text = instrument(fortran, "x", Language::FreeFortran, &LeftOut::default()).unwrap();
    assert_eq!(text.matches("*type=func_call*").count(), 2, "{text}");
}

#[test]
fn loops_within_shared_iterations_are_events_only_if_they_do_more_than_compute() {
    let loops = |source: &str, language| {
        let text = instrument(source, "x", language, &LeftOut::default()).unwrap();
        let line = |line: &str| {
            let (_, rest) = line.split_once("*type=seqloop*")?;
            let (_, line) = rest.split_once("*line1=")?;
            line.split('*').next()?.parse::<usize>().ok()
        };
        text.lines().filter_map(line).collect::<Vec<_>>()
    };
    let c = "\
void f(double *x) {
    for (;;) break;
#pragma omp parallel for
    for (int i = 0; i < 9; i++) {
        for (int k = 0; k < 9; k++) x[k] = sqrt(x[k]);
        while (*x) work(x);
        for (;;) {
#pragma omp flush
        }
    }
    do x++; while (*x);
#pragma omp single
    for (;;) break;
}
";
    assert_eq!(loops(c, Language::C), [2, 6, 7, 11, 13]);
    let fortran = "\
subroutine f(x)
  do i = 1, 9
    x(i) = 1
  end do
  !$omp parallel do
  do i = 1, 9
    do k = 1, 9
      x(k) = sqrt(x(k))
    end do
    do k = 1, 9
      call work(x)
    end do
    do k = 1, 9
      !$omp flush
    end do
  end do
  do while (x(1) > 0)
    x(1) = x(1) - 1
  end do
  !$omp single
  do k = 1, 9
    x(k) = 1
  end do
  !$omp end single
end subroutine
";
    assert_eq!(loops(fortran, Language::FreeFortran), [2, 10, 13, 17, 21]);
}
