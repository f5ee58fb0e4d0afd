#include "client/commands/completion.h"

namespace nerf {
namespace {

// Splits the line itself, because bash also splits at = and :.
constexpr char kBash[] =
    R"sh(# bash completion of nerfctl. Load it with: source <(nerfctl completion bash)
_nerfctl() {
  local line="${COMP_LINE:0:COMP_POINT}" words reply candidate prefix="" paths
  read -ra words <<<"$line"
  [[ "$line" == *[[:space:]] ]] && words+=("")
  local last="${words[-1]}"
  COMPREPLY=()
  mapfile -t reply < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  ((${#reply[@]})) || return 0
  paths="${reply[-1]}"
  unset 'reply[-1]'
  [[ "$last" == *[=:]* ]] && prefix="${last%"${last##*[=:]}"}"
  for candidate in "${reply[@]}"; do
    candidate="${candidate%%$'\t'*}"
    COMPREPLY+=("${candidate#"$prefix"}")
  done
  case "$paths" in
    :files) compopt -o filenames
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$last") ;;
    :dirs) compopt -o filenames
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$last") ;;
  esac
  if [[ ${#COMPREPLY[@]} == 1 && "${COMPREPLY[0]}" == *= ]]; then compopt -o nospace; fi
  return 0
}
complete -F _nerfctl nerfctl
)sh";

constexpr char kZsh[] = R"sh(#compdef nerfctl
# zsh completion of nerfctl. Load it with: source <(nerfctl completion zsh)
_nerfctl() {
  local -a reply candidates
  local line word paths
  reply=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  paths="${reply[-1]}"
  for line in "${(@)reply[1,-2]}"; do
    word="${line%%$'\t'*}"
    candidates+=("${word//:/\\:}:${line#*$'\t'}")
  done
  (( ${#candidates} )) && _describe nerfctl candidates
  case "$paths" in
    :files) _files ;;
    :dirs) _files -/ ;;
  esac
}
compdef _nerfctl nerfctl
)sh";

constexpr char kFish[] =
    R"sh(# fish completion of nerfctl. Load it with: nerfctl completion fish | source
function __nerfctl_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l reply ($words[1] __complete $words[2..-1] 2>/dev/null)
  test (count $reply) -gt 0; or return
  for line in $reply[1..-2]
    echo $line
  end
  switch $reply[-1]
    case :files
      __fish_complete_path (commandline -ct)
    case :dirs
      __fish_complete_directories (commandline -ct)
  end
end
complete -c nerfctl -f -a '(__nerfctl_complete)'
)sh";

}  // namespace

std::string CompletionScript(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return "";
}

}  // namespace nerf
