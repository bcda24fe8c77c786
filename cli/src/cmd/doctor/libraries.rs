//! Looks for the libraries of the executor `cuda` in the places of the loader, without loading them: loading runs their
//! code, which safe Rust cannot vouch for.

use super::{Finding, Verdict, finding};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The usual folders of distributions, containers and the toolkit.
const USUAL: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/opt/cuda/lib64",
];
/// The use of a library in general.
const USED: &str = "used by `--device cuda`; without it the processor does all";

pub fn driver() -> Finding {
    let version = fs::read_to_string("/proc/driver/nvidia/version").ok();
    let version = version.as_deref().and_then(|text| text.lines().next()).map(|line| line.trim().to_owned());
    let device = Path::new("/dev/nvidiactl").exists();
    let found = search("libcuda.so.1");
    let (verdict, text) = match (&found, device) {
        (Some(path), true) => (Verdict::Fine, format!("libcuda.so.1 found at {}", path.display())),
        (Some(path), false) => {
            (Verdict::Note, format!("libcuda.so.1 found at {}, and no device (/dev/nvidiactl)", path.display()))
        }
        (None, true) => (Verdict::Note, "a device, and no libcuda.so.1: the driver's library is missing".to_owned()),
        (None, false) => (Verdict::Fine, "none on this machine (no libcuda.so.1, no /dev/nvidiactl)".to_owned()),
    };
    let value = json!({"library": found, "device": device, "version": version});
    finding("CUDA driver", verdict, text, format!("{USED}. {}", searched()), value)
}

/// Finds NVRTC, the compiler of CUDA C at run time.
pub fn nvrtc() -> Finding {
    let names = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"];
    library("NVRTC", "FULGURITE_NVRTC", &names, USED)
}

/// Finds cuBLASLt, the products of matrices.
pub fn cublaslt() -> Finding {
    let names = ["libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"];
    let used = "used by `--device cuda` for products; without it they are kernels of fulgurite's own";
    library("cuBLASLt", "FULGURITE_CUBLASLT", &names, used)
}

fn library(title: &'static str, variable: &str, names: &[&str], used: &str) -> Finding {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|p| p.is_file());
    let found = named.or_else(|| names.iter().find_map(|name| search(name)));
    let text = match &found {
        Some(path) => format!("found at {}", path.display()),
        None => format!("none on this machine (looked for {})", names.join(", ")),
    };
    finding(title, Verdict::Fine, text, format!("{used}. {}", searched()), json!({"library": found}))
}

fn searched() -> String {
    format!(
        "Searched: FULGURITE_NVRTC, FULGURITE_CUBLASLT, LD_LIBRARY_PATH, CUDA_HOME, /etc/ld.so.cache, /usr/local/cuda*, {}",
        USUAL.join(", ")
    )
}

/// The first file with this name in the loader's order: the user's folders, the cache, the usual folders.
fn search(name: &str) -> Option<PathBuf> {
    let said = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let homes = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    let folders = std::env::split_paths(&said).filter(|p| !p.as_os_str().is_empty());
    let early = folders.chain(homes.flat_map(|home| [home.join("lib64"), home.join("lib")]));
    let cached = fs::read("/etc/ld.so.cache").ok().and_then(|cache| cached(&cache, name));
    let late = USUAL.iter().map(PathBuf::from).chain(toolkits());
    let there = |folder: PathBuf| Some(folder.join(name)).filter(|path| path.is_file());
    early.into_iter().find_map(there).or(cached.filter(|p| p.is_file())).or_else(|| late.into_iter().find_map(there))
}

/// `/usr/local/cuda`, `/usr/local/cuda-12.4`, in the order of their names.
fn toolkits() -> Vec<PathBuf> {
    let entries = fs::read_dir("/usr/local").into_iter().flatten().flatten();
    let cuda = entries.filter(|e| e.file_name().to_string_lossy().starts_with("cuda"));
    let mut found: Vec<PathBuf> =
        cuda.flat_map(|e| [e.path().join("lib64"), e.path().join("targets/x86_64-linux/lib")]).collect();
    found.sort();
    found
}

/// The magic number of glibc's cache, and the sizes of its head and of an entry (sysdeps/generic/dl-cache.h).
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEAD: usize = 48;
const ENTRY: usize = 24;

/// The path of a name in the loader's cache. In the old format, the new one follows behind it.
fn cached(cache: &[u8], name: &str) -> Option<PathBuf> {
    let start = cache.windows(MAGIC.len()).position(|w| w == MAGIC)?;
    let table = &cache[start..];
    let number = |at: usize| Some(u32::from_le_bytes(table.get(at..at + 4)?.try_into().ok()?) as usize);
    let text = |at: usize| {
        let rest = table.get(at..)?;
        std::str::from_utf8(&rest[..rest.iter().position(|b| *b == 0)?]).ok()
    };
    // An entry: flags, the offsets of its name and of its path, and eight more bytes.
    let entries = (0..number(MAGIC.len())?).map_while(|i| {
        let at = HEAD.checked_add(i.checked_mul(ENTRY)?)?;
        Some((number(at + 4)?, number(at + 8)?))
    });
    let path = entries.into_iter().find_map(|(key, value)| (text(key)? == name).then(|| text(value))?);
    path.map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache in glibc's format: two entries, followed by their texts.
    fn cache() -> Vec<u8> {
        let texts = b"liba.so.1\0/lib/liba.so.1\0libb.so\0/opt/libb.so\0";
        let base = (HEAD + 2 * ENTRY) as u32;
        let mut bytes = [MAGIC, &2u32.to_le_bytes(), &(texts.len() as u32).to_le_bytes()].concat();
        bytes.resize(HEAD, 0);
        for (key, value) in [(0, 10), (25, 33)] {
            bytes.extend(3u32.to_le_bytes());
            bytes.extend((base + key).to_le_bytes());
            bytes.extend((base + value).to_le_bytes());
            bytes.extend([0; 12]);
        }
        bytes.extend(texts);
        bytes
    }

    #[test]
    fn the_loaders_cache_is_read() {
        let cache = cache();
        assert_eq!(cached(&cache, "liba.so.1"), Some("/lib/liba.so.1".into()));
        assert_eq!(cached(&cache, "libb.so"), Some("/opt/libb.so".into()));
        assert_eq!(cached(&cache, "libc.so"), None);
        // The table may follow one of the old format.
        assert_eq!(cached(&[b"old table".as_slice(), &cache].concat(), "libb.so"), Some("/opt/libb.so".into()));
    }

    #[test]
    fn broken_caches_have_nothing() {
        let cache = cache();
        for n in 0..cache.len() {
            let _ = cached(&cache[..n], "libb.so");
        }
        let mut many = cache.clone();
        many[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(cached(&many, "libc.so"), None);
        assert_eq!(cached(b"", "libb.so"), None);
    }
}
