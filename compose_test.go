package smelt_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// passwords are what scripts/start.sh --compose writes to .env.
func passwords() types.Mapping {
	return types.Mapping{"MINIO_ROOT_PASSWORD": "minioword", "POSTGRES_PASSWORD": "postgresword", "SMELT_HTTP_TOKEN": "tokenword"}
}

func loadCompose(t *testing.T, env types.Mapping) (*types.Project, error) {
	t.Helper()
	details := types.ConfigDetails{
		WorkingDir:  ".",
		ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yml"}},
		Environment: env,
	}
	return loader.LoadWithContext(t.Context(), details, func(o *loader.Options) { o.SetProjectName("smelt", true) })
}

func mustLoadCompose(t *testing.T) *types.Project {
	t.Helper()
	project, err := loadCompose(t, passwords())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// oneShot says whether a service ends on its own.
func oneShot(s types.ServiceConfig) bool { return s.Restart == types.RestartPolicyNo }

func TestComposeServices(t *testing.T) {
	t.Parallel()
	project := mustLoadCompose(t)
	want := []string{"bucket", "generator", "kafka", "kafka-ui", "minio", "postgres", "smelt", "topic"}
	if got := slices.Sorted(maps.Keys(project.Services)); !slices.Equal(got, want) {
		t.Errorf("services are %q, want %q", got, want)
	}
	pinned := regexp.MustCompile(`^[^:]+(/[^:]+)*:[^:]+$`)
	published := map[string]string{}
	for name, s := range project.Services {
		if !pinned.MatchString(s.Image) || strings.HasSuffix(s.Image, ":latest") {
			t.Errorf("%s: image %q is not pinned", name, s.Image)
		}
		if !oneShot(s) && (s.HealthCheck == nil || s.HealthCheck.Disable || len(s.HealthCheck.Test) < 2) {
			t.Errorf("%s has no health check", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes port %s on %q, want 127.0.0.1", name, p.Published, p.HostIP)
			}
			published[p.Published] = name
		}
	}
	wantPorts := map[string]string{
		"5433": "postgres", "8080": "kafka-ui", "8088": "smelt", "9000": "minio", "9001": "minio", "9092": "kafka",
	}
	if !maps.Equal(published, wantPorts) {
		t.Errorf("published ports are %v, want %v", published, wantPorts)
	}
}

func TestComposeOrder(t *testing.T) {
	t.Parallel()
	project := mustLoadCompose(t)
	for name, s := range project.Services {
		for on, dependency := range s.DependsOn {
			want := types.ServiceConditionHealthy
			if oneShot(project.Services[on]) {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if dependency.Condition != want {
				t.Errorf("%s waits until %s is %q, want %q", name, on, dependency.Condition, want)
			}
		}
	}
	got := slices.Sorted(maps.Keys(project.Services["smelt"].DependsOn))
	if want := []string{"bucket", "kafka", "minio", "postgres", "topic"}; !slices.Equal(got, want) {
		t.Errorf("smelt waits for %q, want %q", got, want)
	}
}

func TestComposePasswords(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`PASSWORD|SECRET|DSN|TOKEN`)
	fromEnv := regexp.MustCompile(`minioword|postgresword|tokenword`)
	seen := 0
	for name, s := range mustLoadCompose(t).Services {
		for key, value := range s.Environment {
			if !secret.MatchString(key) {
				continue
			}
			seen++
			if value == nil || !fromEnv.MatchString(*value) {
				t.Errorf("%s: %s does not come from .env", name, key)
			}
		}
	}
	if seen < 6 {
		t.Errorf("found %d passwords, want those of minio, bucket, postgres and three of smelt", seen)
	}
	for missing := range passwords() {
		env := passwords()
		delete(env, missing)
		_, err := loadCompose(t, env)
		if err == nil || !strings.Contains(err.Error(), "run scripts/start.sh --compose") {
			t.Errorf("without %s: got %v, want to be told to run scripts/start.sh --compose", missing, err)
		}
	}
}

func TestComposeMounts(t *testing.T) {
	t.Parallel()
	for name, s := range mustLoadCompose(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s mounts a file that is not there: %v", name, err)
			}
		}
	}
}

func TestComposeImageOverride(t *testing.T) {
	t.Parallel()
	env := passwords()
	env["MINIO_IMAGE"] = "registry.test/silo:1"
	project, err := loadCompose(t, env)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"minio", "bucket"} {
		if got := project.Services[name].Image; got != env["MINIO_IMAGE"] {
			t.Errorf("%s runs %s, want the image of MINIO_IMAGE", name, got)
		}
	}
}

// TestDockerfile checks what a build cannot be relied on to show: that the image
// runs as a user of its own and tells its health.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := strings.Split(string(text), "\nFROM ")
	last := stages[len(stages)-1]
	for _, want := range []string{"\nUSER smelt\n", "\nHEALTHCHECK ", "/readyz", "\nENTRYPOINT [\"smelt\"]\n"} {
		if !strings.Contains(last, want) {
			t.Errorf("the image's last stage lacks %q", want)
		}
	}
	for _, stage := range stages[1:] {
		if image, _, _ := strings.Cut(stage, "\n"); strings.Contains(image, ":latest") || !strings.Contains(image, ":") {
			t.Errorf("FROM %s is not pinned", image)
		}
	}
}
