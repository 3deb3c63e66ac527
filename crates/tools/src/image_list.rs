//! Tells which files a program's code comes from, when each of them is loaded and unloaded.

use unspool_tool::{Image, ImageKind, Superblock, Tool, say};

/// Lists images.
pub struct ImageList;

impl Tool for ImageList {
    type Thread = ();

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        let mut text = match image.kind() {
            ImageKind::Generated => "loaded generated code".to_owned(),
            _ => format!("loaded {}", image.path().display()),
        };
        let range = image.range();
        text.push_str(&format!(", {:#x} to {:#x}", range.start, range.end));
        if let Some(module) = image.module() {
            text.push_str(&format!(
                ", {} segments, {} sections, {} routines",
                module.segments().len(),
                module.sections().len(),
                module.functions().count()
            ));
        }
        if let Some(identifier) = image.build_id() {
            let digits: String = identifier.iter().map(|it| format!("{it:02x}")).collect();
            text.push_str(&format!(", build {digits}"));
        }
        say(&text);
    }

    fn image_unload(&self, image: &Image<Self>) {
        say(&format!("unloaded {}", image.path().display()));
    }
}
