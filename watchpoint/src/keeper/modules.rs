//! What a process has mapped, as bytes. The keeper tells what it saw when it saw it: a program may have been replaced by
//! another when the front could look.

use failure::image::MappedModule;
use program::{BuildId, FileOffset, LinkAddr, RunAddr};
use tracee::Pid;
use tracee::process::{Module, ModuleMap};

use super::bytes::{In, Out};

pub(super) fn put_modules(out: &mut Out, modules: &ModuleMap) {
    out.word(modules.pid().0.into());
    out.option(modules.entry(), |out, entry| out.word(entry.0));
    out.word(modules.modules().len() as u64);
    for module in modules.modules() {
        out.text(module.mapped.path.as_bytes());
        out.option(module.mapped.bias, Out::word);
        out.word(module.mapped.ranges.len() as u64);
        for (range, offset) in &module.mapped.ranges {
            out.word(range.start.0);
            out.word(range.end.0);
            out.word(offset.0);
        }
        out.option(module.mapped.build_id.as_ref(), |out, id| out.text(&id.0));
        out.flag(module.deleted);
        out.word(module.inode);
        out.word(module.extent.start.0);
        out.word(module.extent.end.0);
    }
}

pub(super) fn take_modules(bytes: &mut In<'_>) -> Option<ModuleMap> {
    let pid = Pid(bytes.number()?);
    let entry = bytes.option(In::word)?.map(RunAddr);
    let modules = bytes.list(take_module)?;
    Some(ModuleMap::told(pid, modules, entry))
}

fn take_module(bytes: &mut In<'_>) -> Option<Module> {
    Some(Module {
        mapped: MappedModule {
            path: String::from_utf8_lossy(bytes.text()?).into_owned(),
            bias: bytes.option(In::word)?,
            ranges: bytes.list(|bytes| {
                let range = RunAddr(bytes.word()?)..RunAddr(bytes.word()?);
                Some((range, FileOffset(bytes.word()?)))
            })?,
            build_id: bytes.option(In::text)?.map(|id| BuildId(id.to_vec())),
        },
        deleted: bytes.flag()?,
        inode: bytes.word()?,
        extent: LinkAddr(bytes.word()?)..LinkAddr(bytes.word()?),
    })
}
