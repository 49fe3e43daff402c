//! Compiler from `.xg` files to a Rust file.

use std::path::{Path, PathBuf};

use crate::source::Files;
use crate::{Error, Loader, Result, emit, lexer, parse, resolve};

/// Compiler of interface files, with its options.
///
/// Several files given at once become one Rust module, so that what they include in common exists once.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    include_directories: Vec<PathBuf>,
    defines: Vec<String>,
    out_dir: Option<PathBuf>,
}

impl Builder {
    /// Makes a builder without include directories or defines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory to search for `#include "…"`, after that of the including file.
    pub fn include(mut self, directory: impl Into<PathBuf>) -> Self {
        self.include_directories.push(directory.into());
        self
    }

    /// Defines a name for `#ifdef` and `#if`, with the value 1.
    pub fn define(mut self, name: impl Into<String>) -> Self {
        self.defines.push(name.into());
        self
    }

    /// Sets the directory to write to instead of cargo's `OUT_DIR`.
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(directory.into());
        self
    }

    /// Compiles `files` into `output` below the output directory. For a `build.rs`: prints the lines that make cargo
    /// run it again when one of the files or their includes changes.
    pub fn compile(&self, files: &[impl AsRef<Path>], output: &str) -> Result<()> {
        let mut loader = Files { include_directories: self.include_directories.clone(), ..Files::default() };
        let names: Vec<_> = files.iter().map(|file| file.as_ref().display().to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let generated = self.generate(&names, &mut loader);
        for path in &loader.read {
            println!("cargo:rerun-if-changed={}", path.display());
        }
        let directory = self.out_dir.clone().or_else(|| std::env::var_os("OUT_DIR").map(PathBuf::from));
        let path = directory.unwrap_or_default().join(output);
        std::fs::write(&path, generated?).map_err(|source| Error::Write { path, source })
    }

    /// Compiles `files`, read through `loader`, and returns the Rust source.
    pub fn generate(&self, files: &[&str], loader: &mut dyn Loader) -> Result<String> {
        let source = lexer::read(files, &self.defines, loader)?;
        let interface = parse::interface(source)?;
        let model = resolve::interface(interface)?;
        Ok(emit::module(&model))
    }
}
