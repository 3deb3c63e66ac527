//! Checks for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::check::{Check, Verdict};

/// One line for each check, with its remedy below it.
#[must_use]
pub fn to_text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    let mut area = None;
    for check in checks {
        if area != Some(check.area) {
            let gap = if area.is_some() { "\n" } else { "" };
            area = Some(check.area);
            let _ = writeln!(text, "{gap}{}", check.area.title());
        }
        let Check { name, found, .. } = check;
        let _ = writeln!(text, "  {:8} {name:width$}  {found}", check.verdict.word());
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "  {:8} {:width$}  remedy: {remedy}", "", "");
        }
    }
    text
}

/// The same as JSON.
#[must_use]
pub fn to_json(checks: &[Check]) -> Value {
    let each = checks.iter().map(|check| {
        json!({
            "area": check.area.word(),
            "name": check.name,
            "verdict": check.verdict.word(),
            "found": check.found,
            "remedy": check.remedy,
        })
    });
    let worst = checks.iter().map(|check| check.verdict).max();
    json!({
        "schema": "unspool-doctor/1",
        "verdict": worst.unwrap_or(Verdict::Good).word(),
        "checks": each.collect::<Vec<_>>(),
    })
}
