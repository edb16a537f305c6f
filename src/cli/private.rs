//! Files that only their owner may read.

use rustix::{fs::Mode, process::umask};

/// What this process makes from now on can be read by its own user only: data have users' ids, and
/// units that nobody has won yet.
pub(super) fn make_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}
