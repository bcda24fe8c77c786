//! Processes that are forked, such as the workers of a `DataLoader`: none of the parent's threads is there.

use std::sync::Once;

extern "C" fn in_child() {
    fulgurite::executors::forget_threads();
}

/// Lets forked processes start with threads of their own.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function lives as long as the library, which is never unloaded. If there is no memory for the
        // entry, forked processes wait for threads; nothing can be done about it here.
        _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}
