//! What the program prints about itself.

use engine::config::{Chapter, ROWS};

/// Version of the program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit the program was built from, if the build said so, and whether with changes.
pub(crate) fn commit() -> (&'static str, u8) {
    match option_env!("PRONGHORN_COMMIT") {
        Some(commit) => (
            commit.split('-').next().unwrap_or(commit),
            u8::from(commit.contains('-')),
        ),
        None => ("00000000", 0),
    }
}

/// The line of `--version`.
pub(crate) fn version() -> String {
    let (commit, modified) = commit();
    let redis = commands::REDIS_VERSION;
    let bits = usize::BITS;
    format!(
        "Pronghorn server v={VERSION} redis={redis} sha={commit}:{modified} malloc=jemalloc bits={bits}\n"
    )
}

/// The text of `--help`.
pub(crate) fn help() -> String {
    let mut text = vec![
        "Usage: pronghorn [/path/to/pronghorn.conf] [--directive value ...] [-]\n\
         \x20      pronghorn - (read the configuration from the standard input)\n\
         \x20      pronghorn -v or --version\n\
         \x20      pronghorn -h or --help\n\n\
         Examples:\n\
         \x20      pronghorn (run with the defaults)\n\
         \x20      pronghorn /etc/pronghorn/6379.conf\n\
         \x20      pronghorn --port 7777 --threads 4\n\
         \x20      pronghorn /etc/pronghorn.conf --loglevel verbose\n\
         \x20      echo 'maxclients 100' | pronghorn -\n\n\
         Directives, which options and files set alike (docs/configuration.md has all of it):\n"
            .to_owned(),
    ];
    for chapter in Chapter::ALL
        .iter()
        .filter(|chapter| **chapter != Chapter::Missing)
    {
        text.push(format!("\n{}\n", chapter.title()));
        for row in ROWS
            .iter()
            .filter(|row| row.chapter == *chapter && !row.hidden)
        {
            let doc = row.doc.replace('`', "");
            let end = doc.find(". ").map_or(doc.len(), |end| end + 1);
            text.push(format!("  --{:<34} {}\n", row.name, &doc[..end]));
        }
    }
    text.concat()
}

/// The logo, for terminals.
pub(crate) fn logo(port: u16) -> String {
    let (commit, modified) = commit();
    let bits = usize::BITS;
    let pid = env::process::id();
    format!(
        r"
      \\        //
       \\_    _//        Pronghorn {VERSION} ({commit}/{modified}) {bits} bit
        )_\  /_(
         ( oo )          Running in standalone mode
          \  /           Port: {port}
          (__)           PID: {pid}

"
    )
}
