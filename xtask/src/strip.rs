//! What the shipped object does not need: debugging information, and the lines of source that verifiers would show.

use anyhow::{Context as _, Result};
use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

/// An ELF object without its debugging sections and `.BTF.ext`, and without what moves addresses in these. Types
/// (`.BTF`) stay.
///
/// # Errors
/// When it is no ELF object.
pub(crate) fn strip(object: &[u8]) -> Result<Vec<u8>> {
    let mut elf = Builder::read(object).context("reading the eBPF object")?;
    for section in &mut elf.sections {
        let name = section.name.to_string();
        let name = name.strip_prefix(".rel").unwrap_or(&name);
        section.delete = name.starts_with(".debug_") || name == ".BTF.ext";
    }
    name_sections_apart(&mut elf);
    elf.delete_orphans();
    let mut stripped = Vec::new();
    elf.write(&mut stripped)
        .context("writing the eBPF object")?;
    Ok(stripped)
}

/// LLVM keeps the names of sections and symbols in one table, the writer here in two.
fn name_sections_apart(elf: &mut Builder<'_>) {
    let mut all = elf.sections.iter();
    if !all.any(|section| matches!(section.data, SectionData::SectionString)) {
        let names = elf.sections.add();
        names.name = ".shstrtab".into();
        names.sh_type = SHT_STRTAB;
        names.sh_addralign = 1;
        names.data = SectionData::SectionString;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::write::{Object, StandardSegment};
    use object::{Architecture, BinaryFormat, Endianness, Object as _, ObjectSection as _};

    #[test]
    fn only_what_runs_and_its_types_stay() {
        let mut whole = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        for name in ["tcx", ".BTF", ".BTF.ext", ".debug_info"] {
            let kind = object::SectionKind::Data;
            let id = whole.add_section(
                whole.segment_name(StandardSegment::Data).to_vec(),
                name.as_bytes().to_vec(),
                kind,
            );
            whole.append_section_data(id, name.as_bytes(), 8);
        }
        let stripped = strip(&whole.write().unwrap()).unwrap();
        let left = object::File::parse(&*stripped).unwrap();
        let named = |name| {
            left.section_by_name(name)
                .map(|s| s.data().unwrap().to_vec())
        };
        assert_eq!(named("tcx"), Some(b"tcx".to_vec()));
        assert_eq!(named(".BTF"), Some(b".BTF".to_vec()));
        assert_eq!((named(".BTF.ext"), named(".debug_info")), (None, None));
    }

    #[test]
    fn something_else_is_refused() {
        assert!(strip(b"no object").is_err());
    }
}
