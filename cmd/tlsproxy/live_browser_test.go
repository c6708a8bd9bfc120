//go:build browser && sim && !nogpu

package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// screenshots is where the pictures of the documentation go, if they are wanted.
var screenshots = flag.String("screenshots", "", "folder to write the live page's screenshots to")

// A browser is Chromium with a page, such as the live one of a running demonstration.
type browser struct {
	*testing.T
	ctx  context.Context
	base string
}

// openLive starts a demonstration on the simulated GPU, and a browser at its live page.
func openLive(t *testing.T, sim *simctl.Sim) *browser {
	t.Helper()
	log := new(logtest.Buffer)
	ctx, stop := context.WithCancel(context.Background())
	status := start(ctx, log, "demo", "--keep", "--gpu", "sim", "--rounds", "1", "--duration", "50ms", "--concurrency", "2")
	t.Cleanup(func() {
		sim.Hold(0, false)
		stop()
		if s := <-status; s != 0 {
			t.Errorf("status %d", s)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	b := openBrowser(t, log.Find(`for more load: (http://\S+)/`))
	b.do(chromedp.WaitVisible("#certificates tr"))
	return b
}

// openBrowser starts Chromium at a page.
func openBrowser(t *testing.T, page string, options ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	b := &browser{T: t, base: page}
	options = append(options, chromedp.NoSandbox, chromedp.WindowSize(1280, 1000)) // the tests may run as root, where Chromium has no sandbox
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:], options...)...)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(b.ctx); err != nil {
			t.Error(err)
		}
		cancel()
	})
	if _, err := chromedp.Run(b.ctx, chromedp.Navigate(b.base)); err != nil { // without a time-out, which would be the browser's
		t.Fatal(err)
	}
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) { value(b, chromedp.Steps(steps...)) }

// value runs an action, which has to end within two minutes.
func value[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// text evaluates JavaScript to a string.
func (b *browser) text(script string) string {
	b.Helper()
	return value(b, chromedp.Evaluate[string]("String("+script+")"))
}

// await evaluates JavaScript until it is true.
func (b *browser) await(script string) {
	b.Helper()
	value(b, chromedp.Poll[bool](script, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(2*time.Minute)))
}

// shoot takes a picture, in which there has to be something, and keeps it if that is wanted.
func (b *browser) shoot(name string) {
	b.Helper()
	png := value(b, chromedp.FullScreenshot(100))
	if !bytes.HasPrefix(png, []byte("\x89PNG")) || len(png) < 10_000 {
		b.Errorf("%s: a picture of %d bytes", name, len(png))
	}
	if *screenshots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644); err != nil {
		b.Error(err)
	}
}

// phoneAndDark looks at the page on a phone, where nothing may be cut off, and in the dark, where it has to be dark.
func (b *browser) phoneAndDark(name string) {
	b.Helper()
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2)))
	if wide := b.text(`document.documentElement.scrollWidth > document.documentElement.clientWidth`); wide != "false" {
		b.Error("the page is wider than a phone")
	}
	b.shoot(name + "-phone")
	b.do(func(ctx context.Context, target *chromedp.Target) (v chromedp.Void, err error) {
		dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
		_, err = cdp.Call(ctx, target, emulation.SetEmulatedMedia, dark)
		return v, err
	}, chromedp.ResetViewport())
	if colour := b.text(`getComputedStyle(document.body).backgroundColor`); colour != "rgb(13, 17, 23)" {
		b.Errorf("in the dark the page is %s", colour)
	}
	b.shoot(name + "-dark")
}

// metric returns a metric's value by its whole name, labels included.
func (b *browser) metric(name string) string {
	b.Helper()
	response, err := http.Get(b.base + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	b.Fatalf("no metric %s", name)
	return ""
}

// shown is a number of the page, without the separators of thousands.
func (b *browser) shown(script string) string {
	b.Helper()
	return strings.ReplaceAll(b.text(script), ",", "")
}

const inAll = `.querySelectorAll("td")[1].textContent`

// TestLivePage looks at the page idle, under the load that its button starts, and
// after a fault of the GPU: what it shows is what /metrics says.
func TestLivePage(t *testing.T) {
	sim, library, err := simctl.Fresh(simctl.Library())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(filepath.Dir(library))) // where the demonstration looks for the simulator
	sim.SetSensors(0, 12, 41, 90_000)
	b := openLive(t, sim)

	row := `[...document.querySelectorAll("#groups tr")].find((r) => r.dataset.group === "X25519CTRUPrime761")`
	equal := func(when string) {
		t.Helper()
		group := b.metric(`tlsproxy_handshakes_total{group="X25519CTRUPrime761",resumed="false",version="1.3"}`)
		byGPU := b.metric(`tlsproxy_kem_operations_total{engine="gpu",operation="server-exchange",scheme="CTRU-Prime-761"}`)
		batches := b.metric(`tlsproxy_gpu_batch_size_count{device="0"}`)
		for _, c := range []struct{ what, script, want string }{
			{"handshakes", row + inAll, group},
			{"by the GPU", `document.querySelector("#engines tr")` + inAll, byGPU},
			{"batches", `document.querySelector("#gpus td").textContent`, batches},
			{"open connections", `document.getElementById("connections").textContent`, b.metric("tlsproxy_connections")},
		} {
			if got := b.shown(c.script); got != c.want {
				t.Errorf("%s, %s: the page shows %s, /metrics %s", when, c.what, got, c.want)
			}
		}
	}
	equal("idle")
	if state := b.text(`document.getElementById("state").textContent`); !strings.HasPrefix(state, "serving on 127.0.0.1:") {
		t.Errorf("%q", state)
	}
	if text := b.text(`document.getElementById("gpus").textContent`); !strings.Contains(text, "41 °C") || !strings.Contains(text, "90 W") {
		t.Errorf("no sensors in %q", text)
	}
	b.shoot("live-idle")

	before := b.shown(row + inAll)
	b.do(chromedp.Click("#load button"))
	b.await(`document.getElementById("load-said").textContent === "started"`)
	b.await(`Number(` + row + inAll + `.replaceAll(",", "")) > ` + before)
	b.await(`document.querySelectorAll("#groups-chart polyline").length === 3`)
	b.shoot("live-load")
	if text := b.text(`document.querySelector("#load button").disabled`); text != "true" {
		t.Error("the button is there for a load that runs")
	}

	sim.SetFaultsPermanent(0, true)
	sim.FaultLaunch(0, 0, simctl.Forever, int(driver.ErrIllegalAddress))
	b.await(`/^closed since /.test(document.querySelector("#gpus .bad")?.textContent)`)
	b.await(`/GPU 0 .* is closed since .*the CPU does its work/.test(document.getElementById("health").textContent)`)
	b.shoot("live-fault")
	b.await(`!document.querySelector("#load button").disabled && document.getElementById("connections").textContent === "0"`)
	events := b.text("document.body.dataset.events")
	b.await("document.body.dataset.events > " + events + " + 1") // the page has the last counts
	equal("after the fault")

	b.phoneAndDark("live")

	// What a reader of the screen and a keyboard need: names for pictures, heads for tables, a button to be reached.
	for script, want := range map[string]string{
		`[...document.querySelectorAll("[role=img]")].every((e) => e.getAttribute("aria-label"))`:                            "true",
		`[...document.querySelectorAll("section")].every((e) => document.getElementById(e.getAttribute("aria-labelledby")))`: "true",
		`[...document.querySelectorAll("tbody tr")].every((e) => e.querySelector("th[scope=row]"))`:                          "true",
		`(document.querySelector("#load button").focus(), document.activeElement.textContent)`:                               "Start a demo load",
	} {
		if got := b.text(script); got != want {
			t.Errorf("%s: %s", script, got)
		}
	}
}
