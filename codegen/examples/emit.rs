fn main() {
    let text = std::fs::read_to_string("ops.yaml").unwrap();
    let t = std::time::Instant::now();
    fulgurite_codegen::build::write(&fulgurite_codegen::emit::Target::upstream("fulgurite"), &text, "ops.yaml", &Default::default(), std::path::Path::new("/tmp/emitted")).unwrap();
    eprintln!("{:?}", t.elapsed());
}
