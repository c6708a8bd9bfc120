package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// root is the repository's.
var root = filepath.Join("..", "..")

// strict decodes a manifest into the type of its kind; a field that the type lacks, or
// that comes twice, is an error.
func strict(t *testing.T) func(manifest []byte) (runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	return func(manifest []byte) (runtime.Object, error) {
		object, _, err := decoder.Decode(manifest, nil, nil)
		return object, err
	}
}

// set is what a folder leads to.
type set struct {
	deployment    *appsv1.Deployment
	service       *corev1.Service
	autoscaler    *autoscalingv2.HorizontalPodAutoscaler
	budget        *policyv1.PodDisruptionBudget
	network       *networkingv1.NetworkPolicy
	secret        *corev1.Secret
	configuration *corev1.ConfigMap
	config        config
}

// config is what the manifests have to agree with of a tlsproxy.yaml.
type config struct {
	Listen   []string
	Timeouts struct{ Drain metav1.Duration }
	Admin    struct{ Listen []string }
	Provider map[string]any
	TLS      struct{ Tickets struct{ Secrets string } }

	Certificates []struct{ Folder string }
}

// render decodes what kustomize makes of a folder; there is one of each kind.
func render(t *testing.T, folder string) *set {
	t.Helper()
	decode := strict(t)
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	s := new(set)
	for _, r := range rendered.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object, err := decode(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		s.take(t, object)
	}
	if rendered.Size() != 7 {
		t.Errorf("%s has %d objects, not one of each kind", folder, rendered.Size())
	}
	if err := yaml.Unmarshal([]byte(s.configuration.Data["tlsproxy.yaml"]), &s.config); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *set) take(t *testing.T, object runtime.Object) {
	switch object := object.(type) {
	case *appsv1.Deployment:
		s.deployment = object
	case *corev1.Service:
		s.service = object
	case *autoscalingv2.HorizontalPodAutoscaler:
		s.autoscaler = object
	case *policyv1.PodDisruptionBudget:
		s.budget = object
	case *networkingv1.NetworkPolicy:
		s.network = object
	case *corev1.Secret:
		s.secret = object
	case *corev1.ConfigMap:
		s.configuration = object
	default:
		t.Errorf("a %T", object)
	}
}

// TestManifests renders each folder and looks whether its objects fit together.
func TestManifests(t *testing.T) {
	for _, folder := range []string{"base", "gpu"} {
		t.Run(folder, func(t *testing.T) {
			s := render(t, folder)
			s.checkSelectors(t)
			s.checkPorts(t)
			s.checkVolumes(t)
			s.checkContainer(t)
			s.checkAutoscaler(t)
			if hook := s.container().Lifecycle.PreStop.Sleep.Seconds; time.Duration(*s.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds)*time.Second <= time.Duration(hook)*time.Second+s.config.Timeouts.Drain.Duration || s.config.Timeouts.Drain.Duration == 0 {
				t.Errorf("a pod is killed before it has drained: hook %ds, drain %v", hook, s.config.Timeouts.Drain)
			}
		})
	}
}

func (s *set) pod() *corev1.PodTemplateSpec { return &s.deployment.Spec.Template }
func (s *set) container() *corev1.Container { return &s.pod().Spec.Containers[0] }

// checkSelectors: whatever selects pods selects those of the Deployment, and not all.
func (s *set) checkSelectors(t *testing.T) {
	for who, selector := range map[string]map[string]string{
		"the Deployment": s.deployment.Spec.Selector.MatchLabels, "the Service": s.service.Spec.Selector, "the budget": s.budget.Spec.Selector.MatchLabels,
		"the network policy": s.network.Spec.PodSelector.MatchLabels, "the spread": s.pod().Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(labels.Set(s.pod().Labels)) {
			t.Errorf("%s selects %v, pods are %v", who, selector, s.pod().Labels)
		}
	}
}

// checkPorts: what names a port names one of the container, which the configuration
// listens on.
func (s *set) checkPorts(t *testing.T) {
	ports := map[string]int32{}
	for _, p := range s.container().Ports {
		ports[p.Name] = p.ContainerPort
	}
	c := s.container()
	named := []string{s.service.Spec.Ports[0].TargetPort.StrVal, c.StartupProbe.HTTPGet.Port.StrVal, c.ReadinessProbe.HTTPGet.Port.StrVal, c.LivenessProbe.HTTPGet.Port.StrVal}
	for _, rule := range s.network.Spec.Ingress {
		named = append(named, rule.Ports[0].Port.StrVal)
	}
	for _, name := range named {
		if ports[name] == 0 {
			t.Errorf("no port is called %q", name)
		}
	}
	if want := fmt.Sprintf(":%d", ports["https"]); !slices.Equal(s.config.Listen, []string{want}) {
		t.Errorf("the proxy listens on %v, the container's port is %s", s.config.Listen, want)
	}
	if want := fmt.Sprintf("0.0.0.0:%d", ports["admin"]); !slices.Equal(s.config.Admin.Listen, []string{want}) {
		t.Errorf("the admin listener is at %v, want %s", s.config.Admin.Listen, want)
	}
	if got := s.pod().Annotations["prometheus.io/port"]; got != fmt.Sprint(ports["admin"]) {
		t.Errorf("Prometheus is told of port %s", got)
	}
}

// checkVolumes: each mount has a volume, whole, and the configuration names files there.
func (s *set) checkVolumes(t *testing.T) {
	where := map[string]string{}
	for _, m := range s.container().VolumeMounts {
		where[m.Name] = m.MountPath
		if m.SubPath != "" || !m.ReadOnly {
			t.Errorf("%s is mounted in part, or to be written to", m.Name)
		}
	}
	for _, v := range s.pod().Spec.Volumes {
		if where[v.Name] == "" {
			t.Errorf("volume %s is not mounted", v.Name)
		}
		switch {
		case v.Name == "configuration" && v.ConfigMap.Name != s.configuration.Name, v.Name == "tickets" && v.Secret.SecretName != s.secret.Name:
			t.Errorf("volume %s is of an object that is not here", v.Name)
		}
	}
	if len(where) != len(s.pod().Spec.Volumes) {
		t.Errorf("%d mounts, %d volumes", len(where), len(s.pod().Spec.Volumes))
	}
	for key := range s.secret.StringData {
		if want := where["tickets"] + "/" + key; s.config.TLS.Tickets.Secrets != want {
			t.Errorf("ticket keys are from %s, the secret is at %s", s.config.TLS.Tickets.Secrets, want)
		}
	}
	if s.config.Certificates[0].Folder != where["certificates"] {
		t.Errorf("certificates are from %s, not %s", s.config.Certificates[0].Folder, where["certificates"])
	}
	if want := []string{"run", "-c", where["configuration"] + "/tlsproxy.yaml"}; !slices.Equal(s.container().Args, want) {
		t.Errorf("arguments %q, want %q", s.container().Args, want)
	}
}

// checkContainer: it runs with as little as it can, as the image has it.
func (s *set) checkContainer(t *testing.T) {
	pod, own := s.pod().Spec.SecurityContext, s.container().SecurityContext
	if !*pod.RunAsNonRoot || *pod.RunAsUser == 0 || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*own.AllowPrivilegeEscalation || !*own.ReadOnlyRootFilesystem || !slices.Equal(own.Capabilities.Drop, []corev1.Capability{"ALL"}) || *s.pod().Spec.AutomountServiceAccountToken {
		t.Errorf("more than it needs: %v %v", pod, own)
	}
	dockerfile, err := os.ReadFile(filepath.Join(root, "deploy", "docker", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\nUSER %d:%d\n", *pod.RunAsUser, *pod.RunAsGroup); !strings.Contains(string(dockerfile), want) {
		t.Errorf("the image's user is not %q", want)
	}
	if image := s.container().Image; !regexp.MustCompile(`^tlsproxy:\w`).MatchString(image) {
		t.Errorf("image %s", image)
	}
	cards := s.container().Resources.Limits["nvidia.com/gpu"]
	if engine := s.config.Provider["engine"]; (cards.Value() == 1) != (engine == "auto") {
		t.Errorf("%v GPUs, engine %v", cards.Value(), engine)
	}
}

// checkAutoscaler: it scales the Deployment by a metric that the adapter has from one of
// the proxy's.
func (s *set) checkAutoscaler(t *testing.T) {
	spec := s.autoscaler.Spec
	if spec.ScaleTargetRef.Name != s.deployment.Name || spec.ScaleTargetRef.Kind != "Deployment" || s.deployment.Spec.Replicas != nil {
		t.Errorf("it scales %v", spec.ScaleTargetRef)
	}
	var adapter struct {
		Rules struct {
			Custom []struct {
				SeriesQuery string
				Name        struct{ As string }
			}
		}
	}
	read(t, "prometheus-adapter.yaml", &adapter)
	rule := adapter.Rules.Custom[0]
	if got := spec.Metrics[0].Pods.Metric.Name; got != rule.Name.As {
		t.Errorf("the autoscaler goes by %s, the adapter has %s", got, rule.Name.As)
	}
	metrics, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	series, _, _ := strings.Cut(rule.SeriesQuery, "{")
	if !strings.Contains(string(metrics), "| `"+series+"` | counter |") {
		t.Errorf("the proxy has no counter %s", series)
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// TestOverlayChangesLittle: with GPUs the configuration is that without, but for provider.
func TestOverlayChangesLittle(t *testing.T) {
	var base, gpu map[string]any
	read(t, filepath.Join("base", "tlsproxy.yaml"), &base)
	read(t, filepath.Join("gpu", "tlsproxy.yaml"), &gpu)
	if _, has := base["provider"]; has || gpu["provider"] == nil {
		t.Error("provider is not what differs")
	}
	delete(gpu, "provider")
	if got, want := fmt.Sprint(gpu), fmt.Sprint(base); got != want {
		t.Errorf("%s\n%s", got, want)
	}
}

// TestPerCore: the autoscaler asks as many handshakes of a requested core with GPUs as
// without, so that more cores do not make for more pods.
func TestPerCore(t *testing.T) {
	perCore := func(folder string) int64 {
		s := render(t, folder)
		return s.autoscaler.Spec.Metrics[0].Pods.Target.AverageValue.Value() / s.container().Resources.Requests.Cpu().Value()
	}
	if base, gpu := perCore("base"), perCore("gpu"); base == 0 || base != gpu {
		t.Errorf("%d handshakes a second and core without a GPU, %d with one", base, gpu)
	}
}

// TestUpdateNeedsNoFurtherGPU: where pods hold GPUs an update does not wait for one that
// nobody has.
func TestUpdateNeedsNoFurtherGPU(t *testing.T) {
	s := render(t, "gpu")
	if gpus := s.container().Resources.Limits["nvidia.com/gpu"]; gpus.Value() != 1 {
		t.Errorf("%v GPUs", gpus.Value())
	}
	if update := s.deployment.Spec.Strategy.RollingUpdate; update.MaxSurge.IntValue() != 0 || update.MaxUnavailable.IntValue() < 1 {
		t.Errorf("an update starts %v pods before one has gone, and may have %v away", update.MaxSurge, update.MaxUnavailable)
	}
}

// TestStrict: a mistake in a manifest is found.
func TestStrict(t *testing.T) {
	decode := strict(t)
	text, err := os.ReadFile(filepath.Join("base", "service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mistake := range []string{"  ports:", "  port: 1\n  ports:", "  ports: []\n  ports:"} {
		_, err := decode([]byte(strings.Replace(string(text), "  ports:", mistake, 1)))
		if (err != nil) != (mistake != "  ports:") {
			t.Errorf("%q: %v", mistake, err)
		}
	}
}
