//! Output of Rust lines with indentation.

/// Generated source under construction.
#[derive(Debug, Default)]
pub(super) struct Code {
    text: String,
    depth: usize,
}

impl Code {
    /// Adds a line. A line that ends in an opening bracket indents those after it; one that starts with a
    /// closing bracket is outdented.
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if line.starts_with(['}', ']', ')']) {
            self.depth -= 1;
        }
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", self.depth));
            self.text.push_str(line);
        }
        self.text.push('\n');
        if line.ends_with(['{', '[', '(']) {
            self.depth += 1;
        }
    }

    /// Adds an empty line, except at the start of a block or of the file.
    pub(super) fn gap(&mut self) {
        let start = self.text.is_empty() || self.text.ends_with("{\n");
        if !start && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
