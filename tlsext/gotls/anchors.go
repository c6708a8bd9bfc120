package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"slices"
	"strings"
)

// anchor is a place in crypto/tls into which gotls inserts text. It is found in
// the syntax tree and must match exactly once: no match means that the package
// has changed, two that the place is no longer the one that was meant.
type anchor struct {
	name      string // what the hook does there
	in        string // the declaration that holds the place
	signature string // what that declaration must be, if it is a function
	want      string // what is looked for inside it
	match     func(d declaration) []place
}

// place is one match of an anchor.
type place struct {
	pos    token.Pos
	insert func()
}

// anchors lists every change to files of crypto/tls. What the inserted text
// calls is in _hook/ctrutls.go.
var anchors = []anchor{
	{
		name: "key share keys", in: "keySharePrivateKeys", want: "a struct type",
		match: structField("ctrutls *ctrutlsShares"),
	},
	{
		name: "group name", in: "CurveID.String", signature: "func() string", want: "the function's start",
		match: start("if name := ctrutlsName($recv); name != \"\" { return name }"),
	},
	{
		name: "preference order", in: "Config.curvePreferences", signature: "func(uint16) []CurveID", want: "the function's start",
		match: start("if order := ctrutlsPreferences($recv, $0); order != nil { return order }"),
	},
	{
		name: "key exchange", in: "keyExchangeForCurveID", signature: "func(CurveID) (keyExchange, error)", want: "the function's start",
		match: start("if ke := ctrutlsKeyExchangeFor($0); ke != nil { return ke, nil }"),
	},
	{
		name: "empty share", in: "clientHelloMsg.unmarshal", signature: "func([]byte) bool", want: "len(ks.data) == 0",
		match: emptyShare,
	},
	{
		name: "client's shares", in: "Conn.clientHandshake", signature: "func(context.Context) error",
		want:  "hello, keyShareKeys, _, err := c.makeClientHello() and the check of its error",
		match: clientShares,
	},
	{
		name: "client's share after HelloRetryRequest", in: "clientHandshakeStateTLS13.processHelloRetryRequest",
		signature: "func() error", want: "ke.keyShares(...)",
		match: wrapReceiver("keyShares", "ctrutlsRetry"),
	},
	{
		name: "client's secret", in: "clientHandshakeStateTLS13.establishHandshakeKeys",
		signature: "func() error", want: "ke.clientSharedSecret(...)",
		match: wrapReceiver("clientSharedSecret", "ctrutlsFinish"),
	},
	{
		name: "client's alert", in: "clientHandshakeStateTLS13.establishHandshakeKeys",
		signature: "func() error", want: "if err != nil { c.sendAlert(alertIllegalParameter) ... } after clientSharedSecret",
		match: alertAfter("clientSharedSecret"),
	},
	{
		name: "server's choice", in: "serverHandshakeStateTLS13.processClientHello",
		signature: "func() error", want: "selectedGroup := preferredGroups[0]",
		match: serverChoice,
	},
	{
		name: "server's secret", in: "serverHandshakeStateTLS13.processClientHello",
		signature: "func() error", want: "ke.serverSharedSecret(...)",
		match: wrapReceiver("serverSharedSecret", "ctrutlsServe"),
	},
	{
		name: "server's alert", in: "serverHandshakeStateTLS13.processClientHello",
		signature: "func() error", want: "if err != nil { c.sendAlert(alertIllegalParameter) ... } after serverSharedSecret",
		match: alertAfter("serverSharedSecret"),
	},
}

// matched says where an anchor was found, or why it was not.
type matched struct {
	anchor anchor
	at     string // file:line
	err    error
}

// apply finds every anchor in src and inserts what belongs there. The error is
// nil only if each anchor matched exactly once.
func apply(src *tlsSource) ([]matched, error) {
	var report []matched
	var errs []error
	for _, a := range anchors {
		m := matched{anchor: a}
		d, p, err := a.find(src)
		if err != nil {
			m.err = fmt.Errorf("anchor %q: %w", a.name, err)
			errs = append(errs, m.err)
		} else {
			m.at = fmt.Sprintf("%s:%d", d.file.name, d.file.line(p.pos))
			p.insert()
		}
		report = append(report, m)
	}
	return report, errors.Join(errs...)
}

func (a anchor) find(src *tlsSource) (d declaration, p place, err error) {
	found := src.find(a.in)
	if len(found) != 1 {
		return d, p, fmt.Errorf("%d declarations of %s, want one", len(found), a.in)
	}
	d = found[0]
	if a.signature != "" {
		if d.fn == nil {
			return d, p, fmt.Errorf("%s is a type, want %s", a.in, a.signature)
		}
		if got := d.signature(); got != a.signature {
			return d, p, fmt.Errorf("%s is %s, want %s", a.in, got, a.signature)
		}
		if r := d.receiver(); d.fn.Recv != nil && (r == "" || r == "_") {
			return d, p, fmt.Errorf("%s does not name its receiver", a.in)
		}
	}
	places := a.match(d)
	if len(places) != 1 {
		return d, p, fmt.Errorf("%d matches in %s, want one: %s", len(places), a.in, a.want)
	}
	return d, places[0], nil
}

// start inserts a statement at the start of a function, on the line of its
// opening brace. $recv and $0 stand for the receiver and the first parameter.
func start(stmt string) func(declaration) []place {
	return func(d declaration) []place {
		names := strings.NewReplacer("$recv", d.receiver(), "$0", d.param(0))
		if strings.Contains(stmt, "$0") && (d.param(0) == "" || d.param(0) == "_") {
			return nil
		}
		return []place{{d.fn.Body.Lbrace, func() { d.file.insert(d.fn.Body.Lbrace+1, " "+names.Replace(stmt)+";") }}}
	}
}

// structField inserts a field in front of those of a struct type.
func structField(field string) func(declaration) []place {
	return func(d declaration) []place {
		if d.typ == nil {
			return nil
		}
		s, ok := d.typ.Type.(*ast.StructType)
		if !ok {
			return nil
		}
		return []place{{s.Pos(), func() { d.file.insert(s.Fields.Opening+1, " "+field+";") }}}
	}
}

// wrapReceiver turns x.method(...) into fn(x, receiver).method(...).
func wrapReceiver(method, fn string) func(declaration) []place {
	return func(d declaration) []place {
		var places []place
		for _, call := range d.calls(method) {
			x, ok := call.Fun.(*ast.SelectorExpr).X.(*ast.Ident)
			if !ok {
				continue
			}
			places = append(places, place{x.Pos(), func() {
				d.file.insert(x.Pos(), fn+"(")
				d.file.insert(x.End(), ", "+d.receiver()+")")
			}})
		}
		return places
	}
}

// alertAfter finds the check of the error of x.method(...) that blames the peer,
// and lets the hook report its own errors first.
func alertAfter(method string) func(declaration) []place {
	return func(d declaration) []place {
		var places []place
		for _, check := range d.errorChecks(method) {
			body := check.branch.Body
			if len(body.List) == 0 || !strings.HasSuffix(d.file.source(body.List[0]), ".sendAlert(alertIllegalParameter)") {
				continue
			}
			places = append(places, place{body.Pos(), func() {
				d.file.insert(body.Lbrace+1, " if e := ctrutlsFail("+d.receiver()+".c, err); e != nil { return e };")
			}})
		}
		return places
	}
}

// clientShares makes the client's key shares once crypto/tls has built the
// ClientHello: the handshake's context is at hand here, and nothing has been
// derived from the shares yet.
func clientShares(d declaration) []place {
	var places []place
	for _, check := range d.errorChecks("makeClientHello") {
		assign := check.assign
		if len(assign.Lhs) < 2 || d.param(0) == "" || d.param(0) == "_" {
			continue
		}
		hello, keys := d.file.source(assign.Lhs[0]), d.file.source(assign.Lhs[1])
		places = append(places, place{assign.Pos(), func() {
			d.file.insert(check.branch.End(), fmt.Sprintf("; if err := ctrutlsClientShares(%s, %s, %s, %s); err != nil { return err }; defer ctrutlsRelease(%[4]s)",
				d.param(0), d.receiver(), hello, keys))
		}})
	}
	return places
}

// emptyShare lets an empty key share of a registered group through to the group,
// which refuses it with illegal_parameter like any other of the wrong length.
func emptyShare(d declaration) []place {
	var places []place
	ast.Inspect(d.fn.Body, func(n ast.Node) bool {
		check, ok := n.(*ast.BinaryExpr)
		if ok && d.file.source(check) == "len(ks.data) == 0" {
			places = append(places, place{check.Pos(), func() {
				d.file.insert(check.End(), ` && ctrutlsName(ks.group) == ""`)
			}})
		}
		return true
	})
	return places
}

// serverChoice lets the hook overrule the server's choice of group.
func serverChoice(d declaration) []place {
	var places []place
	ast.Inspect(d.fn.Body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if ok && d.file.source(assign) == "selectedGroup := preferredGroups[0]" {
			places = append(places, place{assign.Pos(), func() {
				r := d.receiver()
				d.file.insert(assign.End(), fmt.Sprintf("; selectedGroup = ctrutlsSelect(%s.c, %[1]s.clientHello, selectedGroup)", r))
			}})
		}
		return true
	})
	return places
}

// calls returns the calls x.method(...) in a function.
func (d declaration) calls(method string) []*ast.CallExpr {
	var calls []*ast.CallExpr
	ast.Inspect(d.fn.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == method {
				calls = append(calls, call)
			}
		}
		return true
	})
	return calls
}

// errorCheck is an "if err != nil" that directly follows an assignment.
type errorCheck struct {
	assign *ast.AssignStmt
	branch *ast.IfStmt
}

// errorChecks returns the checks of the error of x.method(...) in a function.
func (d declaration) errorChecks(method string) []errorCheck {
	calls := d.calls(method)
	var checks []errorCheck
	ast.Inspect(d.fn.Body, func(n ast.Node) bool {
		block, ok := n.(*ast.BlockStmt)
		if !ok {
			return true
		}
		for i := range len(block.List) - 1 {
			assign, ok := block.List[i].(*ast.AssignStmt)
			if !ok || len(assign.Rhs) != 1 || !slices.ContainsFunc(calls, func(c *ast.CallExpr) bool { return assign.Rhs[0] == c }) {
				continue
			}
			branch, ok := block.List[i+1].(*ast.IfStmt)
			if ok && branch.Init == nil && branch.Else == nil && d.file.source(branch.Cond) == "err != nil" {
				checks = append(checks, errorCheck{assign, branch})
			}
		}
		return true
	})
	return checks
}

// patchTLS returns the files of crypto/tls in dir that the hook changes, by
// name, and the file that it adds, together with where each anchor was found.
func patchTLS(dir fs.FS) (files map[string][]byte, report []matched, err error) {
	src, err := readSource(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range src.files {
		if f.name == hookFile {
			return nil, nil, fmt.Errorf("there is a %s already: this toolchain was patched by hand; use an unchanged one", hookFile)
		}
	}
	report, err = apply(src)
	if err != nil {
		return nil, report, err
	}
	files = map[string][]byte{hookFile: hookText}
	for _, f := range src.files {
		if len(f.inserts) > 0 {
			files[f.name] = f.patched()
		}
	}
	return files, report, nil
}
