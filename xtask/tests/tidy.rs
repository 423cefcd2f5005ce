//! The tree is in order.

#[test]
fn the_tree_is_tidy() {
    let report = match xtask::tidy::run(&xtask::root()) {
        Ok(report) => report,
        Err(error) => panic!("{error}"),
    };
    assert!(
        report.findings.is_empty(),
        "\n{}\n",
        report.findings.join("\n")
    );
}
