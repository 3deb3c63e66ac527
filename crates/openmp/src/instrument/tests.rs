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
            "int f(void)\n{\n#pragma omp parallel\n",
            4,
            "a statement is missing",
        ),
        ("#pragma omp single\n{ f(\n", 2, "a bracket is not closed"),
        (
            "#pragma unspool interval a\n",
            1,
            "the interval does not end",
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
    assert!(body.contains("else h();\ndbg_before_barrier"), "{body}");
    assert!(
        body.contains("do { k(); } while (0); dbg_critical_event_end"),
        "{body}"
    );
    assert!(
        text.contains("*type=critical*file=x.c*line1=7*line2=8*name1=name**"),
        "{text}"
    );
}
