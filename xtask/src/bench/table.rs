//! Tables as aligned text and as Markdown.

/// A table whose first column holds names and whose others hold figures.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) title: String,
    /// The headings.
    pub(crate) header: Vec<String>,
    /// The rows, as long as the header.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// For a terminal.
    pub(crate) fn to_text(&self) -> String {
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| {
                let cells = self.rows.iter().chain([&self.header]);
                cells
                    .map(|row| row[column].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut text = format!("{}\n", self.title);
        for row in [&self.header].into_iter().chain(&self.rows) {
            let mut line = format!("  {:<width$}", row[0], width = widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                line.push_str(&format!("  {cell:>width$}"));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// For a file that people read in a browser or an editor.
    pub(crate) fn to_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut rule = vec!["---".to_owned()];
        rule.resize(self.header.len(), "---:".to_owned());
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!(
            "### {}\n\n{}{}{rows}",
            self.title,
            line(&self.header),
            line(&rule)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        Table {
            title: "Ratios".to_owned(),
            header: row(["program", "native", "run"]),
            rows: vec![row(["xz", "1.00 s", "1.2"]), row(["mean", "", "1.1"])],
        }
    }

    #[test]
    fn text_is_aligned() {
        let expected =
            "Ratios\n  program  native  run\n  xz       1.00 s  1.2\n  mean             1.1\n";
        assert_eq!(table().to_text(), expected);
    }

    #[test]
    fn markdown_has_a_rule() {
        let expected = "### Ratios\n\n| program | native | run |\n| --- | ---: | ---: |\n\
                        | xz | 1.00 s | 1.2 |\n| mean |  | 1.1 |\n";
        assert_eq!(table().to_markdown(), expected);
    }
}
