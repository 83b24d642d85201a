//! Tests of the `format` parser, on files of real kernels and on made-up ones.

use super::*;
use crate::tracefs::Tracefs;
use proptest::prelude::*;

const ENTER: &[u8] = include_bytes!("../../../tests/data/format/sys_enter_read");
const EXIT: &[u8] = include_bytes!("../../../tests/data/format/sys_exit_read");
const PROCESS_EXIT: &[u8] = include_bytes!("../../../tests/data/format/sched_process_exit");
const PROCESS_EXEC: &[u8] = include_bytes!("../../../tests/data/format/sched_process_exec");
const WIDE_HEADER: &[u8] = include_bytes!("../../../tests/data/format/sys_enter_read.wide_header");

fn field(declaration: &str) -> Field {
    parse_field(&format!("{declaration};\toffset:8;\tsize:4;\tsigned:1;")).unwrap()
}

fn parts(declaration: &str) -> (String, String, Shape) {
    let field = field(declaration);
    (field.type_name, field.name, field.shape)
}

fn expected(type_name: &str, name: &str, shape: Shape) -> (String, String, Shape) {
    (type_name.to_owned(), name.to_owned(), shape)
}

#[test]
fn entry_of_read_has_its_arguments_in_slots_of_eight_bytes() {
    let format = Format::parse(ENTER).unwrap();
    assert_eq!(format.name, "sys_enter_read");
    assert_eq!(format.id, 842);
    assert_eq!(format.fields.len(), 8);
    let fd = format.field("fd").unwrap();
    assert_eq!((fd.offset, fd.size, fd.type_name.as_str()), (16, 8, "unsigned int"));
    assert_eq!(format.field("buf").unwrap().type_name, "char *");
    assert_eq!(format.field("nothing"), None);
}

#[test]
fn exit_of_read_has_a_signed_result() {
    let format = Format::parse(EXIT).unwrap();
    let ret = format.field("ret").unwrap();
    assert_eq!((ret.offset, ret.size, ret.signed), (16, 8, true));
}

#[test]
fn arguments_are_the_fields_that_not_all_tracepoints_have() {
    let declarations = |file| -> Vec<String> {
        let format = Format::parse(file).unwrap();
        format.arguments().map(|field| field.declaration.clone()).collect()
    };
    let enter = ["int __syscall_nr", "unsigned int fd", "char * buf", "size_t count"];
    assert_eq!(declarations(ENTER), enter);
    assert_eq!(declarations(WIDE_HEADER), enter);
    let exec = ["__data_loc char[] filename", "pid_t pid", "pid_t old_pid"];
    assert_eq!(declarations(PROCESS_EXEC), exec);
}

#[test]
fn arrays_and_strings_elsewhere_are_told_apart() {
    let exit = Format::parse(PROCESS_EXIT).unwrap();
    assert_eq!(exit.field("comm").unwrap().shape, Shape::Array { length: Some(16) });
    let exec = Format::parse(PROCESS_EXEC).unwrap();
    let filename = exec.field("filename").unwrap();
    assert_eq!((filename.type_name.as_str(), filename.shape), ("char", Shape::DataLoc));
}

#[test]
fn a_wider_header_moves_the_fields_behind_it() {
    let format = Format::parse(WIDE_HEADER).unwrap();
    assert_eq!(format.field("common_preempt_lazy_count").unwrap().offset, 8);
    assert_eq!(format.field("__syscall_nr").unwrap().offset, 12);
}

#[test]
fn every_way_to_declare_a_field_is_understood() {
    assert_eq!(parts("char *buf"), expected("char *", "buf", Shape::Single));
    let pointers = expected("const char *const *", "argv", Shape::Single);
    assert_eq!(parts("const char *const * argv"), pointers);
    assert_eq!(parts("u32 buf[]"), expected("u32", "buf", Shape::Flexible));
    let named = expected("char", "comm", Shape::Array { length: None });
    assert_eq!(parts("char comm[TASK_COMM_LEN + 1]"), named);
    assert_eq!(parts("__rel_loc u8[] data"), expected("u8", "data", Shape::RelLoc));
    assert_eq!(parts("__rel_loc u8 data[]"), expected("u8", "data", Shape::RelLoc));
}

#[test]
fn a_field_without_signed_is_unsigned() {
    assert!(!parse_field("int pid;\toffset:8;\tsize:4;").unwrap().signed);
}

#[test]
fn a_malformed_line_is_named() {
    let text = b"name: x\nID: 1\nformat:\n\tfield:int pid;\toffset:-8;\tsize:4;\tsigned:1;\n";
    let error = Format::parse(text).unwrap_err();
    assert_eq!((error.line, error.problem), (4, Problem::Offset));
    assert!(error.to_string().starts_with("the offset cannot be read in line 4: \"field:int pid;"));
    assert_eq!(parse_field("int pid; offset:8;"), Err(Problem::Size));
    assert_eq!(parse_field("pid; offset:8; size:4;"), Err(Problem::Declaration));
    assert_eq!(Format::parse(b"name: x\nID: y\n").unwrap_err().problem, Problem::Id);
    assert_eq!(Format::parse(b"ID: 1\n").unwrap_err().problem, Problem::Name);
    let error = Format::parse(b"name: x\n").unwrap_err();
    assert_eq!(error.to_string(), "the line with the ID is missing");
}

/// Writes a format as the kernel does.
fn render(format: &Format) -> String {
    let mut text = format!("name: {}\nID: {}\nformat:\n", format.name, format.id);
    for field in &format.fields {
        let Field { declaration, offset, size, signed, .. } = field;
        let signed = u8::from(*signed);
        let numbers = format!("\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
        text = text + "\tfield:" + declaration + ";" + &numbers;
    }
    text + "\nprint fmt: \"%d\", REC->x\n"
}

fn declaration(type_name: &str, name: &str, shape: Shape) -> String {
    match shape {
        Shape::Single => format!("{type_name} {name}"),
        Shape::Array { length: Some(length) } => format!("{type_name} {name}[{length}]"),
        Shape::Array { length: None } => format!("{type_name} {name}[LENGTH]"),
        Shape::Flexible => format!("{type_name} {name}[]"),
        Shape::DataLoc => format!("__data_loc {type_name}[] {name}"),
        Shape::RelLoc => format!("__rel_loc {type_name}[] {name}"),
    }
}

fn any_field() -> impl Strategy<Value = Field> {
    let shape = prop_oneof![
        Just(Shape::Single),
        any::<Option<u32>>().prop_map(|length| Shape::Array { length }),
        Just(Shape::Flexible),
        Just(Shape::DataLoc),
        Just(Shape::RelLoc),
    ];
    let type_name = "[a-z_]{1,8}( [a-z]{1,6}){0,2}( \\*{1,2})?";
    ("[a-z_][a-z0-9_]{0,12}", type_name, any::<(u32, u32, bool)>(), shape).prop_map(
        |(name, type_name, (offset, size, signed), shape)| Field {
            declaration: declaration(&type_name, &name, shape),
            name,
            type_name,
            offset,
            size,
            signed,
            shape,
        },
    )
}

proptest! {
    #[test]
    fn no_input_panics(bytes: Vec<u8>) {
        let _ = Format::parse(&bytes);
    }

    #[test]
    fn no_field_line_panics(text in "[a-z \\[\\]*;:0-9é]{0,40}") {
        let _ = Format::parse(format!("name: x\nID: 1\n\tfield:{text}\n").as_bytes());
        let _ = parse_declaration(&text);
    }

    #[test]
    fn what_is_rendered_is_parsed_back(
        name in "[a-z_]{1,12}", id: u64, fields in prop::collection::vec(any_field(), 0..8),
    ) {
        let format = Format { name, id, fields };
        prop_assert_eq!(Format::parse(render(&format).as_bytes()), Ok(format));
    }
}

#[test]
fn every_format_of_the_running_kernel_is_parsed() {
    let tracefs = match Tracefs::open(None) {
        Ok(tracefs) => tracefs,
        Err(error) => {
            assert!(std::env::var_os("RLAT_REQUIRE_BPF").is_none(), "{error}");
            eprintln!("skipped: {error}");
            return;
        }
    };
    let mut parsed = 0;
    for category in std::fs::read_dir(tracefs.root().join("events")).unwrap() {
        let category = category.unwrap();
        if !category.file_type().unwrap().is_dir() {
            continue;
        }
        for event in std::fs::read_dir(category.path()).unwrap() {
            let event = event.unwrap();
            let Ok(text) = std::fs::read(event.path().join("format")) else {
                continue;
            };
            let format = Format::parse(&text).unwrap();
            assert_eq!(format.name, event.file_name().to_str().unwrap());
            assert!(format.field("common_type").is_some());
            parsed += 1;
        }
    }
    assert!(parsed > 100, "only {parsed} formats");
    eprintln!("parsed {parsed} formats");
}
